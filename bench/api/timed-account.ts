import { setImmediate as turn } from 'node:timers/promises'
import { openAccount } from './account.js'
import { StoreTimes } from './timed-store.js'

/**
 * The API over the store at the path given, in a process of its own so that nothing of the client is measured.
 * Prints its port; after each line on standard input it prints, as JSON, what the control plane and the store have taken for the last write, and
 * the longest turn of the loop since the line before.
 */
const [path] = process.argv.slice(2)
if (path === undefined) throw new RangeError('no path')
const times = new StoreTimes()
const begun = performance.now()
const account = await openAccount(path, (store) => times.over(store))
const opened = performance.now() - begun

let control = 0
const update = account.control.records.update.bind(account.control)
account.control.records.update = async (...call) => {
  const begun = performance.now()
  const written = await update(...call)
  control = performance.now() - begun
  return written
}

let longest = 0
let watching = true

/** The loop is watched by a turn that never rests: the longest of them is what a request would have waited. */
async function watch(): Promise<void> {
  let last = performance.now()
  while (watching) {
    await turn()
    const now = performance.now()
    longest = Math.max(longest, now - last)
    last = now
  }
}

console.log(JSON.stringify({ port: account.api.port, opened }))
const watched = watch()
for await (const _line of process.stdin) {
  console.log(JSON.stringify({ longest, control, store: times.store.at(-1) }))
  longest = 0
}
watching = false
await watched
await account.close()
