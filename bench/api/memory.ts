/** Loaded before the program that is measured: answers each message with the bytes of the heap after a collection. */
process.on('message', () => {
  globalThis.gc?.()
  process.send?.(process.memoryUsage().heapUsed)
})
// The channel alone must not keep the program.
process.channel?.unref()
