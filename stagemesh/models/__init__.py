"""Models: where their files lie and what stands in them. Imports neither torch nor anything of a service.

store            locate(config, name) -> ModelFiles; list_models(config) -> [ModelEntry]
pull             pull(config, name, on_progress) -> ModelFiles
verify           verify(config, name) -> Verification
info             info(config, name) -> ModelInfo
revision         revision(files) -> SHA-256 of the weights
gguf_file        open_gguf(path) -> GgufFile: metadata, tensors, raw(name), tensor(name)
model_config     load_model_config(files) -> TransformerConfig
tokenizer_file   load_tokenizer(files) -> TokenizerFile: json, token_bytes, special tokens, chat template, hash
chat_template    compile_template(text) -> ChatTemplate; ChatTemplate.render(messages) -> text
errors           ModelError and below; all are ConfigErrors
"""
