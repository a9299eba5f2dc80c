const hooks = require('node:async_hooks')
const { readdirSync, readFileSync } = require('node:fs')
const { syncBuiltinESMExports } = require('node:module')
const { resolve } = require('node:path')
const { pathToFileURL } = require('node:url')

/**
 * Runs compiled tests: `node test/start.cjs FILE` one, and with a channel to its parent one after the other, each as it is asked
 * for. Most of what a small test costs is loading the product and tap, which files that follow one another in a process share.
 * Node loads what is required faster than what is imported (see src/cli/load.ts).
 */

/** After so many files, or with so much memory, a process that serves several ends. Bytes. */
const MOST_FILES = 40
const MOST_MEMORY = 800 * 1_024 * 1_024
/** How often a process that ends looks for its runner. Milliseconds. */
const LOOK = 1_000

void (process.argv[2] === undefined ? serve() : alone(process.argv[2]))

async function alone(name) {
  process.once('exit', () => process.stdout.write(`# cpu ${cpuSeconds()}\n`))
  await root()
  const file = resolve(name)
  // As if Node had been started with it: folders of tests are named after it.
  process.argv.splice(1, 2, file)
  await load(file)
}

/** Files from the parent. A subtest of its own says that one has ended; what comes before it on standard output is how it went. */
async function serve() {
  const runner = process.ppid
  // tap names the folders of tests after what it finds here as it is loaded: two processes must not meet in one folder.
  const script = `process-${process.pid}`
  process.argv[1] = script
  const t = await root()
  const timeout = Number(process.env.TAP_TIMEOUT) * 1_000
  const { test } = t
  let running = []
  let teardowns = []
  t.test = (...words) => {
    const result = test.apply(t, words)
    running.push(result)
    return result
  }
  // tap would run them when the process ends, and end by itself whenever it is idle once it has one.
  t.teardown = (run) => teardowns.push(run)
  process.once('disconnect', () => {
    // What tap does at the end, such as removing folders, takes longer than a process without work lives.
    // A test that still waits when its runner has died would go on for ever; a runner that lives ends what takes too long.
    const held = setInterval(() => process.ppid === runner || process.exit(), LOOK)
    t.once('complete', () => held.unref())
    t.end()
  })
  let files = 0
  process.on('message', async (name) => {
    const file = resolve(name)
    process.argv[1] = file
    const cpuBefore = cpuSeconds()
    // Only between files may the channel keep the process: a test that waits for nothing has failed.
    process.channel.unref()
    t.setTimeout(timeout)
    await load(file)
    // What a test says of itself is on standard output; here it only has to have ended.
    await Promise.allSettled(running)
    for (const run of teardowns.reverse()) await run()
    running = []
    teardowns = []
    // The next file may be long in coming.
    t.setTimeout(0)
    process.argv[1] = script
    files += 1
    const last = files === MOST_FILES || process.memoryUsage().rss > MOST_MEMORY
    // Behind what tap still has to write: a runner that is slow to read makes it wait.
    t.comment(`cpu ${cpuSeconds() - cpuBefore}`)
    await test.call(t, `ended ${name}${last ? ', the last' : ''}`, async (marker) => marker.pass())
    if (last) process.disconnect()
    else process.channel.ref()
  })
}

/** The root of all tests, which both ways of loading a file share. */
async function root() {
  // tap would follow every promise and every callback, to know which test an error belongs to that nobody has caught: more than a
  // tenth of what tests compute. Here it belongs to the test that runs.
  const { createHook } = hooks
  hooks.createHook = () => ({ enable: () => undefined, disable: () => undefined })
  syncBuiltinESMExports()
  const { t } = await import('tap')
  hooks.createHook = createHook
  syncBuiltinESMExports()
  const running = [t]
  process.on('uncaughtException', (error) => running.at(-1).threw(error))
  // tap removes the folder of a test before it runs teardowns, unless there was one before the folder: a process that is
  // stopped by a teardown would still write there. Not on the root, which would end by itself from then on, before a file
  // that waits at its top has come to its tests.
  t.beforeEach((test) => {
    running.push(test)
    test.teardown(() => {
      running.splice(running.indexOf(test), 1)
    })
  })
  return t
}

async function load(file) {
  try {
    require(file)
  } catch (error) {
    // Releases of Node that cannot, and what awaits at its top: nothing of it has run.
    if (error.code !== 'ERR_REQUIRE_ESM' && error.code !== 'ERR_REQUIRE_ASYNC_MODULE') throw error
    // A rejection ends the process with what it says.
    await import(pathToFileURL(file).href)
  }
}

/** CPU time of this process and of all that it has started, running or ended, in seconds; 0 where the system has no /proc. */
function cpuSeconds() {
  const processes = new Map()
  try {
    for (const name of readdirSync('/proc')) if (/^\d+$/.test(name)) addProcess(processes, name)
  } catch {
    return 0
  }
  const ticks = (id) => {
    const { own, children } = processes.get(id)
    return own + children.reduce((sum, child) => sum + ticks(child), 0)
  }
  return processes.has(process.pid) ? ticks(process.pid) / 100 : 0
}

/** Fields of `/proc/PID/stat` (proc_pid_stat(5)): the fourth is the parent; the 14th to the 17th are ticks, those of children that were waited for included. */
function addProcess(processes, name) {
  let text
  try {
    text = readFileSync(`/proc/${name}/stat`, 'latin1')
  } catch {
    return
  }
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const entry = (id) => processes.get(id) ?? processes.set(id, { own: 0, children: [] }).get(id)
  entry(Number(name)).own = fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0)
  entry(Number(fields[1])).children.push(Number(name))
}
