//===- CudaToolkit.cpp - Machine code of GPUs by the programs of a CUDA toolkit -----------------------------------===//
//
// See CudaToolkit.h.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Target/CudaToolkit.h"
#include "compiler/Codegen/GPU/DeviceKernels.h"
#include "compiler/Target/Link.h"
#include "ingot_rt/device.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include <cstddef>
#include <cstdlib>
#include <optional>

using namespace llvm;

namespace ingot {

/// Where tools/setup puts the programs of PyPI's wheels.
static constexpr StringLiteral wheelFolder = "/usr/local/lib/ingot-cuda/bin";

/// Folders that may hold programs of a toolkit, the one that is asked for first.
static SmallVector<std::string> toolFolders() {
  SmallVector<std::string> folders;
  if (const char *home = std::getenv("CUDA_HOME"))
    folders.push_back(std::string(home) + "/bin");
  if (const char *path = std::getenv("PATH"))
    for (StringRef folder : split(path, sys::EnvPathSeparator))
      if (!folder.empty())
        folders.push_back(folder.str());
  folders.push_back("/usr/local/cuda/bin");
  folders.push_back(wheelFolder.str());
  return folders;
}

static bool hasTool(StringRef folder, StringRef name) { return sys::fs::can_execute(folder + "/" + name); }

/// A temporary file, empty at first, for the programs.
static Expected<std::string> addFile(ObjectFiles &files, StringRef name, StringRef contents = "") {
  if (Error error = files.add(name, ArrayRef(contents.data(), contents.size())))
    return error;
  return files.get().back();
}

static Expected<std::string> readFile(StringRef path) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> buffer =
      MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    return createStringError(buffer.getError(), path + ": " + buffer.getError().message());
  return (*buffer)->getBuffer().str();
}

/// Runs a program and returns what it printed; an error where it fails.
static Expected<std::string> runTool(StringRef program, ArrayRef<std::string> arguments) {
  ObjectFiles files;
  Expected<std::string> output = addFile(files, "ingot-tool");
  if (!output)
    return output.takeError();
  SmallVector<StringRef> argv = {program};
  append_range(argv, arguments);
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(*output), StringRef(*output)};
  std::string failure;
  int code =
      sys::ExecuteAndWait(program, argv, std::nullopt, redirects, /*SecondsToWait=*/0, /*MemoryLimit=*/0, &failure);
  Expected<std::string> said = readFile(*output);
  if (!said)
    return said.takeError();
  if (code != 0)
    return createStringError(program + (failure.empty() ? " failed: " : ": " + failure + ": ") +
                             StringRef(*said).trim());
  return said;
}

Expected<CudaToolkit> CudaToolkit::find() {
  // Who names a toolkit means that one and no other.
  SmallVector<std::string> folders = toolFolders();
  if (std::getenv("CUDA_HOME"))
    folders.truncate(1);
  std::string older;
  for (const std::string &folder : folders) {
    if (!hasTool(folder, "ptxas") || !hasTool(folder, "fatbinary"))
      continue;
    CudaToolkit toolkit;
    toolkit.ptxas = folder + "/ptxas";
    toolkit.fatbinary = folder + "/fatbinary";
    Expected<std::string> version = runTool(toolkit.ptxas, {"--version"});
    if (!version)
      return version.takeError();
    StringRef release = StringRef(*version).split("release ").second.split(',').first, rest = release;
    if (!rest.consumeInteger(10, toolkit.major) && toolkit.major >= leastCudaVersion)
      return toolkit;
    older += "; " + toolkit.ptxas + " is of CUDA '" + release.str() + "'";
  }
  return createStringError("expected ptxas and fatbinary of CUDA " + Twine(leastCudaVersion) +
                           " or later, got none of them in " +
                           (std::getenv("CUDA_HOME") ? folders.front() + " ($CUDA_HOME)"
                                                     : "PATH, /usr/local/cuda/bin or " + wheelFolder.str()) +
                           "; PyPI's nvidia-cuda-nvcc has them (tools/setup installs it)" + older);
}

/// Assembles one architecture's PTX; the path of the cubin.
static Expected<std::string> assemble(StringRef ptxas, const DeviceAssembly &ptx, ObjectFiles &files) {
  Expected<std::string> source = addFile(files, "ingot-ptx", ptx.text);
  if (!source)
    return source.takeError();
  Expected<std::string> cubin = addFile(files, "ingot-cubin");
  if (!cubin)
    return cubin.takeError();
  Expected<std::string> said = runTool(ptxas, {"-arch=" + ptx.architecture, *source, "-o", *cubin});
  if (!said)
    return said.takeError();
  return cubin;
}

static std::string numberOf(StringRef architecture) { return architecture.drop_front(strlen("sm_")).str(); }

Expected<SmallVector<char, 0>> CudaToolkit::makeFatbin(ArrayRef<DeviceAssembly> ptx) const {
  ObjectFiles files;
  // Uncompressed: the code is small, and whoever loads it need not unpack it.
  std::vector<std::string> arguments = {"-64", "--compress-mode=none"};
  for (const DeviceAssembly &part : ptx) {
    Expected<std::string> cubin = assemble(ptxas, part, files);
    if (!cubin)
      return cubin.takeError();
    arguments.push_back("--image3=kind=elf,sm=" + numberOf(part.architecture) + ",file=" + *cubin);
  }
  Expected<std::string> text = addFile(files, "ingot-ptx", ptx.back().text);
  if (!text)
    return text.takeError();
  arguments.push_back("--image3=kind=ptx,sm=" + numberOf(ptx.back().architecture) + ",file=" + *text);
  Expected<std::string> output = addFile(files, "ingot-fatbin");
  if (!output)
    return output.takeError();
  arguments.push_back("--create=" + *output);
  if (Expected<std::string> said = runTool(fatbinary, arguments); !said)
    return said.takeError();
  Expected<std::string> bytes = readFile(*output);
  if (!bytes)
    return bytes.takeError();
  return SmallVector<char, 0>(bytes->begin(), bytes->end());
}

Expected<std::vector<DeviceAssembly>> CudaToolkit::disassemble(ArrayRef<DeviceAssembly> ptx) const {
  SmallVector<std::string> folders = toolFolders();
  auto folder = find_if(folders, [](StringRef candidate) { return hasTool(candidate, "nvdisasm"); });
  if (folder == folders.end())
    return createStringError("nvdisasm is not in $CUDA_HOME/bin, PATH, /usr/local/cuda/bin or " + wheelFolder +
                             "; PyPI's nvidia-cuda-nvdisasm has it (tools/setup installs it)");
  std::vector<DeviceAssembly> result;
  for (const DeviceAssembly &part : ptx) {
    ObjectFiles files;
    Expected<std::string> cubin = assemble(ptxas, part, files);
    if (!cubin)
      return cubin.takeError();
    Expected<std::string> text = runTool(*folder + "/nvdisasm", {"-c", *cubin});
    if (!text)
      return text.takeError();
    result.push_back({part.architecture, std::move(*text)});
  }
  return result;
}

Expected<SmallVector<char, 0>> emitDeviceCode(ArrayRef<char> fatbin, ArrayRef<std::string> architectures,
                                              unsigned cudaVersion, ArrayRef<std::string> kernels,
                                              const CpuTarget &target) {
  LLVMContext context;
  Module module("ingot-device", context);
  auto define = [&](Constant *value, StringRef name, unsigned alignment) {
    auto *global =
        new GlobalVariable(module, value->getType(), /*isConstant=*/true,
                           name.empty() ? GlobalValue::PrivateLinkage : GlobalValue::ExternalLinkage, value, name);
    global->setAlignment(Align(alignment));
    return global;
  };
  GlobalVariable *code = define(ConstantDataArray::get(context, fatbin), "", 8);
  code->setSection(".nv_fatbin");
  SmallVector<Constant *> table;
  for (const std::string &kernel : kernels)
    table.push_back(new GlobalVariable(module, Type::getInt8Ty(context), /*isConstant=*/true,
                                       GlobalValue::ExternalLinkage, nullptr,
                                       (gpu::kernelSymbolPrefix + kernel).str()));
  Type *pointer = PointerType::getUnqual(context);
  Constant *list = define(ConstantArray::get(ArrayType::get(pointer, table.size()), table), "", 8);
  Constant *names = define(ConstantDataArray::getString(context, join(architectures, ",")), "", 1);
  auto integer = [&](unsigned bits, uint64_t value) {
    return ConstantInt::get(IntegerType::get(context, bits), value);
  };
  static_assert(offsetof(ingot_rt_cuda_code, fatbin) == 8 && offsetof(ingot_rt_cuda_code, architectures) == 24 &&
                    offsetof(ingot_rt_cuda_code, driver) == 32 && offsetof(ingot_rt_cuda_code, kernels) == 40 &&
                    sizeof(ingot_rt_cuda_code) == 48,
                "the fields of the description of device code, in order");
  // As cuDriverGetVersion counts.
  Constant *fields[] = {integer(64, sizeof(ingot_rt_cuda_code)),
                        code,
                        integer(64, fatbin.size()),
                        names,
                        integer(32, cudaVersion * 1000),
                        integer(32, kernels.size()),
                        list};
  define(ConstantStruct::getAnon(context, fields), "ingot_rt_the_cuda_code", 8);
  return emitConstants(module, target);
}

std::vector<std::string> getRandomKernels(const ModelRecord &record, mlir::MLIRContext *context) {
  mlir::Builder builder(context);
  std::vector<std::string> symbols(INGOT_RT_RANDOM_KERNELS);
  for (const ParameterRecord &parameter : record.parameters) {
    uint32_t dtype = parameter.fields.dtype, layout = parameter.fields.layout;
    mlir::Type element = dtype == INGOT_RT_F32    ? builder.getF32Type()
                         : dtype == INGOT_RT_BF16 ? builder.getBF16Type()
                                                  : mlir::Type(builder.getF16Type());
    symbols[ingot_rt_random_kernel(dtype, layout)] =
        (gpu::kernelSymbolPrefix + gpu::randomKernelName(element, layout != INGOT_RT_ROWS)).str();
  }
  return symbols;
}

} // namespace ingot
