const { resolve } = require('node:path')
const { pathToFileURL } = require('node:url')

/**
 * Starts one compiled test: `node test/start.cjs FILE`. Node loads what is required faster than what is imported (see
 * src/cli/load.ts), and most of what a small test costs is loading the product.
 */
const file = resolve(process.argv[2])
// As if Node had been started with it: folders of tests are named after it.
process.argv.splice(1, 2, file)

void start()

async function start() {
  const { t } = await import('tap')
  // tap removes the folder of a test before it runs teardowns, unless there was one before the folder: a process that is
  // stopped by a teardown would still write there. Not on the root, which would end by itself from then on, before a file
  // that waits at its top has come to its tests.
  t.beforeEach((test) => test.teardown(() => undefined))
  try {
    require(file)
  } catch (error) {
    // Releases of Node that cannot, and what awaits at its top: nothing of it has run.
    if (error.code !== 'ERR_REQUIRE_ESM' && error.code !== 'ERR_REQUIRE_ASYNC_MODULE') throw error
    // A rejection ends the process with what it says.
    await import(pathToFileURL(file).href)
  }
}
