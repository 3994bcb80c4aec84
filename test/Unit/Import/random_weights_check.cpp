// random_weights_check FILE SEED: compares every tensor of a safetensors file, in bits, with what random.h generates
// for its name and shape. Prints the number of tensors and elements; exits 1 at the first difference.
#include "compiler/Import/RandomCheckpoint.h"
#include "compiler/Import/Safetensors.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>

using namespace ingot;

static int fail(llvm::Error error) {
  llvm::errs() << "error: " << llvm::toString(std::move(error)) << "\n";
  return 1;
}

int main(int argc, char **argv) {
  if (argc != 3) {
    llvm::errs() << "usage: random_weights_check FILE SEED\n";
    return 2;
  }
  auto file = SafetensorsCheckpoint::open(argv[1]);
  if (!file)
    return fail(file.takeError());
  std::vector<RandomTensor> wanted;
  for (const TensorInfo &tensor : (*file)->tensors())
    wanted.push_back({tensor.name, tensor.shape, randomKindOf(tensor.name, tensor.shape), tensor.dtype});
  auto random = RandomCheckpoint::create(std::strtoull(argv[2], nullptr, 10), wanted);
  if (!random)
    return fail(random.takeError());
  int64_t elements = 0;
  for (const TensorInfo &tensor : (*file)->tensors()) {
    auto bytes = (*file)->rawBytes(tensor);
    if (!bytes)
      return fail(bytes.takeError());
    std::vector<char> expected(bytes->size());
    if (llvm::Error error = (*random)->readStored((*random)->tensors()[tensor.index], 0, tensor.rows(), expected))
      return fail(std::move(error));
    for (size_t i = 0; i < expected.size(); ++i)
      if ((*bytes)[i] != expected[i]) {
        llvm::errs() << "error: " << tensor.name << ": byte " << i << " is " << int((*bytes)[i]) << ", expected "
                     << int(expected[i]) << "\n";
        return 1;
      }
    elements += tensor.elements();
  }
  llvm::outs() << (*file)->tensors().size() << " tensors, " << elements << " elements\n";
  return 0;
}
