// A variant without its step.
module {
  module @"x86-64-v3" {
    func.func private @other() {
      return
    }
  }
}
