//===- CudaToolkit.h - Machine code of GPUs by the programs of a CUDA toolkit -------------------------------------===//
//
// ptxas, fatbinary and nvdisasm are NVIDIA's; Ingot builds without them and looks for them when they are needed: the
// first two beside each other in $CUDA_HOME/bin, or where that is not set in the first folder of PATH,
// /usr/local/cuda/bin and that of PyPI's wheels (tools/setup) where they are of a version that will do; nvdisasm, which
// reads code of any toolkit, in all of these.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_TARGET_CUDATOOLKIT_H
#define INGOT_COMPILER_TARGET_CUDATOOLKIT_H

#include "compiler/Target/CodeGen.h"
#include "compiler/Target/ModelTables.h"
#include "compiler/Target/PTX.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace ingot {

/// The oldest toolkit that is used, and with it the oldest driver: machine code of a major version runs on drivers of
/// that version and later ones.
inline constexpr unsigned leastCudaVersion = 13;

class CudaToolkit {
public:
  /// Looks for ptxas and fatbinary of version 13 or later. The error says where it looked, and what is too old there.
  static llvm::Expected<CudaToolkit> find();

  /// The major version.
  unsigned version() const { return major; }

  /// A fat binary: machine code for each architecture, and the PTX of the last one, from which drivers make code for
  /// later ones. The error is what the tool said.
  llvm::Expected<llvm::SmallVector<char, 0>> makeFatbin(llvm::ArrayRef<DeviceAssembly> ptx) const;
  /// Machine code for each architecture as nvdisasm shows it.
  llvm::Expected<std::vector<DeviceAssembly>> disassemble(llvm::ArrayRef<DeviceAssembly> ptx) const;

private:
  std::string ptxas, fatbinary;
  unsigned major = 0;
};

/// The object that holds a fat binary, in the section .nv_fatbin where CUDA's tools look for it, and describes it to
/// the runtime (ingot_rt_cuda_code).
llvm::Expected<llvm::SmallVector<char, 0>> emitDeviceCode(llvm::ArrayRef<char> fatbin,
                                                          llvm::ArrayRef<std::string> architectures,
                                                          unsigned cudaVersion, llvm::ArrayRef<std::string> kernels,
                                                          const CpuTarget &target);

/// ingot_rt_variant.random_kernels for the parameters of `record`, as symbols.
std::vector<std::string> getRandomKernels(const ModelRecord &record, mlir::MLIRContext *context);

} // namespace ingot

#endif // INGOT_COMPILER_TARGET_CUDATOOLKIT_H
