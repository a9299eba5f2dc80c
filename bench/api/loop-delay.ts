import { monitorEventLoopDelay } from 'node:perf_hooks'

/** Loaded before the program that is measured: answers each message with the longest delay of its loop since the one before, in milliseconds. */
const delay = monitorEventLoopDelay({ resolution: 1 })
delay.enable()
process.on('message', () => {
  process.send?.(delay.max / 1e6)
  delay.reset()
})
// The channel alone must not keep the program.
process.channel?.unref()
