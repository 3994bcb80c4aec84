// What a path on the command line may name, and what people give instead.
#include "compiler/Import/OpenModel.h"
#include "compiler/Import/InputError.h"
#include "compiler/Import/MappedFile.h"
#include "compiler/Import/Safetensors.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <algorithm>

using namespace llvm;
using namespace ingot;

static constexpr StringLiteral singleFile = "model.safetensors";
static constexpr StringLiteral indexFile = "model.safetensors.index.json";

static std::string join(StringRef directory, StringRef name) {
  SmallString<256> path(directory);
  sys::path::append(path, name);
  return std::string(path);
}

/// True if the directory has an entry of that name, a broken symbolic link
/// included.
static bool hasEntry(StringRef directory, StringRef name) {
  sys::fs::file_status status;
  return !sys::fs::status(join(directory, name), status, /*follow=*/false) && sys::fs::exists(status);
}

/// The names in a directory, sorted; none if it cannot be read.
static std::vector<std::string> listDirectory(StringRef directory) {
  std::vector<std::string> names;
  std::error_code code;
  for (sys::fs::directory_iterator it(directory, code), end; it != end && !code; it.increment(code))
    names.push_back(sys::path::filename(it->path()).str());
  llvm::sort(names);
  return names;
}

/// The first of `names` that satisfies `test`, or empty.
template <typename Test>
static std::string firstName(ArrayRef<std::string> names, Test test) {
  const std::string *found = llvm::find_if(names, test);
  return found == names.end() ? "" : *found;
}

static bool isGgufName(const std::string &name) { return StringRef(name).ends_with_insensitive(".gguf"); }

/// The error for a path that does not exist. A hub id is "owner/name"; a local
/// path of that look whose parent exists is a typing error.
static Error missingPath(StringRef path) {
  StringRef id = path;
  bool url = id.consume_front("https://") || id.consume_front("http://");
  if (url || id.starts_with("hf.co/") || id.starts_with("huggingface.co/"))
    return inputError(path, "is an address, not a path; download the model "
                            "(for example with 'hf download OWNER/NAME "
                            "--local-dir DIR') and give the directory");
  auto [owner, name] = id.split('/');
  auto isPart = [](StringRef part) {
    return !part.empty() && isAlnum(part[0]) &&
           all_of(part, [](char c) { return isAlnum(c) || StringRef("._-").contains(c); });
  };
  if (isPart(owner) && isPart(name) && !isGgufName(name.str()) && !sys::fs::exists(owner))
    return inputError(path, "no such file or directory; it looks like a hub "
                            "id, which Ingot does not download: run "
                            "'hf download " +
                                path + " --local-dir DIR' and give the directory");
  return inputError(path, "no such file or directory; expected a model "
                          "directory, a GGUF file or a config.json");
}

/// The error for a directory with a config.json and without safetensors.
static Error missingWeights(StringRef directory) {
  std::vector<std::string> names = listDirectory(directory);
  auto any = [&](std::initializer_list<StringRef> wanted) {
    return firstName(names, [&](const std::string &name) { return is_contained(wanted, name); });
  };
  std::string pickle = any({"pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "model.pth"});
  if (!pickle.empty())
    return inputError(directory, "has no safetensors, only " + quote(pickle) +
                                     ", a pickle, which Ingot does not run; "
                                     "convert it: load the model with "
                                     "transformers and call save_pretrained "
                                     "(it writes model.safetensors)");
  std::string other = any({"tf_model.h5", "flax_model.msgpack"});
  if (!other.empty())
    return inputError(directory, "has no safetensors, only " + quote(other) +
                                     "; convert it: load the model with "
                                     "transformers and call save_pretrained");
  std::string gguf = firstName(names, isGgufName);
  if (!gguf.empty())
    return inputError(directory, "has no safetensors but a GGUF file; give that file: " + join(directory, gguf));
  std::string shard = firstName(names, [](StringRef name) { return name.ends_with(".safetensors"); });
  if (!shard.empty())
    return inputError(directory, "has " + quote(shard) + " but neither " + singleFile + " nor " + indexFile +
                                     "; download the index, which says what the files hold");
  return inputError(directory, "has no weights; expected " + singleFile + " or " + indexFile +
                                   " (--weights=random makes weights up, to measure a shape)");
}

/// The error for a directory without config.json.
static Error missingConfig(StringRef directory) {
  std::vector<std::string> names = listDirectory(directory);
  std::string gguf = firstName(names, isGgufName);
  if (!gguf.empty())
    return inputError(directory, "has no config.json but a GGUF file; give that file: " + join(directory, gguf));
  if (is_contained(names, "params.json"))
    return inputError(directory, "has params.json, not config.json: it is a checkpoint in "
                                 "its maker's own format; "
                                 "download the Hugging Face version of the model");
  return inputError(directory, "config.json is missing; expected a Hugging "
                               "Face model directory (config.json and " +
                                   singleFile + "), a GGUF file or a config.json");
}

/// A config must be an object and must not ask for a quantization that is not
/// supported.
static Error checkConfig(StringRef file, const Json &config) {
  if (!config.is_object())
    return inputError(file, "is " + Twine(config.type_name()) + "; expected an object");
  if (config.contains("weight_map"))
    return inputError(file, "is an index of weights, not a config.json; give "
                            "the directory it lies in");
  if (config.contains("peft_type"))
    return inputError(file, "is the configuration of an adapter, which is not "
                            "supported yet; merge the adapter into its "
                            "base model (peft: merge_and_unload, "
                            "save_pretrained) and give the result");
  for (const char *key : {"quantization_config", "compression_config"}) {
    auto it = config.find(key);
    if (it == config.end() || it->is_null())
      continue;
    std::string method = "unnamed";
    if (it->is_object() && it->contains("quant_method") && (*it)["quant_method"].is_string())
      method = (*it)["quant_method"].get<std::string>();
    return inputError(file, Twine(key) + ": weights quantized with " + quote(method) +
                                " are not supported yet; give the model's "
                                "unquantized checkpoint or a GGUF file");
  }
  return Error::success();
}

/// Reads an optional object of a model's directory into `value` and its path
/// into `file`.
static Error readOptionalObject(StringRef directory, StringRef name, Json &value, std::string &file) {
  if (!hasEntry(directory, name))
    return Error::success();
  file = join(directory, name);
  Expected<Json> parsed = readJsonFile(file);
  if (!parsed)
    return parsed.takeError();
  if (!parsed->is_object())
    return inputError(file, "is " + Twine(parsed->type_name()) + "; expected an object");
  value = std::move(*parsed);
  return Error::success();
}

/// model.safetensors, or the index with its shards. Both at once must mean the
/// same file.
static Expected<std::shared_ptr<Checkpoint>> openDirectoryWeights(StringRef directory) {
  bool single = hasEntry(directory, singleFile), index = hasEntry(directory, indexFile);
  if (!single && !index)
    return missingWeights(directory);
  if (!index)
    return SafetensorsCheckpoint::open(join(directory, singleFile));
  auto checkpoint = SafetensorsCheckpoint::openIndex(join(directory, indexFile));
  if (checkpoint && single && llvm::none_of((*checkpoint)->tensors(), [&](const TensorInfo &tensor) {
        return sys::path::filename(tensor.file) == singleFile;
      }))
    return inputError(join(directory, singleFile),
                      "lies beside " + indexFile + ", which does not name it; remove the one that is not meant");
  return std::move(checkpoint);
}

/// The text of the licence files of a directory.
static std::string readLicenses(StringRef directory) {
  constexpr size_t largest = 1 << 20;
  std::string text;
  for (const std::string &name : listDirectory(directory)) {
    std::string upper = StringRef(name).upper();
    StringRef stem = upper;
    if (!stem.starts_with("LICENSE") && !stem.starts_with("LICENCE") && !stem.starts_with("COPYING") &&
        !stem.starts_with("NOTICE"))
      continue;
    Expected<std::shared_ptr<MappedFile>> file = MappedFile::open(join(directory, name));
    if (!file) {
      consumeError(file.takeError()); // a directory or an empty file holds no licence
      continue;
    }
    if ((*file)->bytes().size() > largest)
      continue;
    text += (text.empty() ? "" : "\n\n") + (*file)->text().rtrim().str() + "\n";
  }
  return text;
}

static TokenizerSource findTokenizer(StringRef directory) {
  TokenizerSource source;
  auto path = [&](StringRef name) { return hasEntry(directory, name) ? join(directory, name) : std::string(); };
  source.tokenizerJson = path("tokenizer.json");
  source.tokenizerConfigJson = path("tokenizer_config.json");
  source.specialTokensMapJson = path("special_tokens_map.json");
  source.chatTemplate = path("chat_template.jinja");
  std::string additional = join(directory, "additional_chat_templates");
  for (const std::string &name : listDirectory(additional))
    if (StringRef(name).ends_with(".jinja"))
      source.additionalChatTemplates.push_back(join(StringRef(additional), StringRef(name)));
  source.sentencePiece = path("tokenizer.model");
  if (!source.tokenizerJson.empty() || !source.sentencePiece.empty())
    source.kind = TokenizerSource::Kind::HuggingFace;
  return source;
}

/// A name for people: the directory's, or "owner/name" for a snapshot in the
/// hub's cache.
static std::string displayNameOf(StringRef path) {
  SmallString<256> real;
  if (sys::fs::real_path(path, real))
    real = path;
  StringRef parent = sys::path::parent_path(real);
  StringRef repository = sys::path::filename(sys::path::parent_path(parent));
  if (sys::path::filename(parent) == "snapshots" && repository.consume_front("models--")) {
    auto [owner, name] = repository.split("--");
    return name.empty() ? owner.str() : (owner + "/" + name).str();
  }
  return sys::path::filename(real).str();
}

static Expected<ModelInput> openDirectory(StringRef path, const OpenModelOptions &options) {
  ModelInput model;
  model.kind = ModelKind::HuggingFace;
  model.path = path.str();
  model.displayName = displayNameOf(path);
  if (hasEntry(path, "adapter_config.json"))
    return inputError(path, "adapter_config.json is there: it is an adapter "
                            "(LoRA), which is not supported yet; merge "
                            "it into its base model (peft: merge_and_unload, "
                            "save_pretrained) and give the result");
  if (!hasEntry(path, "config.json"))
    return missingConfig(path);
  if (Error error = readOptionalObject(path, "config.json", model.config, model.configFile))
    return std::move(error);
  if (Error error = checkConfig(model.configFile, model.config))
    return std::move(error);
  if (Error error =
          readOptionalObject(path, "generation_config.json", model.generationConfig, model.generationConfigFile))
    return std::move(error);
  if (options.randomSeed) {
    model.randomSeed = options.randomSeed;
  } else {
    Expected<std::shared_ptr<Checkpoint>> weights = openDirectoryWeights(path);
    if (!weights)
      return weights.takeError();
    model.checkpoint = std::move(*weights);
  }
  model.tokenizer = findTokenizer(path);
  model.license = readLicenses(path);
  return std::move(model);
}

static Expected<ModelInput> openGguf(StringRef path, const OpenModelOptions &options) {
  Expected<std::unique_ptr<GgufCheckpoint>> file = GgufCheckpoint::open(path, options.ignoredKeys);
  if (!file)
    return file.takeError();
  ModelInput model;
  model.kind = ModelKind::Gguf;
  model.path = model.configFile = path.str();
  model.gguf = std::move(*file);
  model.config = model.gguf->config();
  model.generationConfig = model.gguf->generationConfig();
  if (!model.generationConfig.is_null())
    model.generationConfigFile = path.str();
  model.displayName = model.gguf->displayName().empty() ? sys::path::stem(path).str() : model.gguf->displayName().str();
  model.license = model.gguf->license().str();
  if (model.gguf->tokenizer()) {
    model.tokenizer.kind = TokenizerSource::Kind::Gguf;
    model.tokenizer.gguf = model.gguf->tokenizer();
  }
  model.randomSeed = options.randomSeed;
  if (!options.randomSeed)
    model.checkpoint = model.gguf;
  return std::move(model);
}

static Expected<ModelInput> openConfig(StringRef path, const OpenModelOptions &options) {
  ModelInput model;
  model.kind = ModelKind::ConfigOnly;
  model.path = model.configFile = path.str();
  StringRef directory = sys::path::parent_path(path);
  model.displayName = displayNameOf(directory.empty() ? "." : directory);
  Expected<Json> config = readJsonFile(path);
  if (!config)
    return config.takeError();
  model.config = std::move(*config);
  if (Error error = checkConfig(path, model.config))
    return std::move(error);
  if (!options.randomSeed)
    return inputError(path, "is a configuration without weights; give the "
                            "model's directory, or --weights=random to "
                            "make weights up and measure the shape");
  model.randomSeed = options.randomSeed;
  return std::move(model);
}

/// The first bytes of a file, which tell what it is.
static Expected<std::string> firstBytes(StringRef path) {
  Expected<std::shared_ptr<MappedFile>> file = MappedFile::open(path);
  if (!file)
    return file.takeError();
  if (Error error = checkForStandIn(path, (*file)->text()))
    return std::move(error);
  return (*file)->text().substr(0, 8).str();
}

Expected<ModelInput> ingot::openModel(StringRef path, const OpenModelOptions &options) {
  if (path.empty())
    return inputError("''", "an empty path; expected a model directory, a GGUF "
                            "file or a config.json");
  if (sys::fs::is_directory(path))
    return openDirectory(path, options);
  if (!sys::fs::exists(path))
    return missingPath(path);
  Expected<std::string> start = firstBytes(path);
  if (!start)
    return start.takeError();
  if (StringRef(*start).starts_with("GGUF") || isGgufName(path.str()))
    return openGguf(path, options);
  if (path.ends_with(".json"))
    return openConfig(path, options);
  if (path.ends_with(".safetensors"))
    return inputError(path, "holds weights only; give the directory that has "
                            "config.json beside it");
  return inputError(path, "is neither a model directory nor a GGUF file nor a "
                          "config.json (it begins with " +
                              quote(*start) + ")");
}

Expected<std::shared_ptr<Checkpoint>> ingot::openCheckpoint(StringRef path) {
  if (sys::fs::is_directory(path))
    return openDirectoryWeights(path);
  if (!sys::fs::exists(path))
    return missingPath(path);
  if (path.ends_with(".index.json"))
    return SafetensorsCheckpoint::openIndex(path);
  Expected<std::string> start = firstBytes(path);
  if (!start)
    return start.takeError();
  if (StringRef(*start).starts_with("GGUF") || isGgufName(path.str()))
    return GgufCheckpoint::open(path);
  return SafetensorsCheckpoint::open(path);
}
