import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { constants, Script } from 'node:vm'

/** Starts `program.cjs` with what V8 compiled of it when it was built. Another release of Node compiles it anew. */
const file = fileURLToPath(new URL('./program.cjs', import.meta.url))
const cache = fileURLToPath(new URL('./program.cache', import.meta.url))

function compiled() {
  try {
    return readFileSync(cache)
  } catch {
    // The build could not make it, or it was removed.
    return undefined
  }
}

const cachedData = compiled()
/** Exported for the build, which keeps what was compiled. */
export const script = new Script(readFileSync(file, 'latin1'), {
  filename: file,
  importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  ...(cachedData === undefined ? {} : { cachedData })
})
const module = { exports: {} }
script.runInThisContext()(module.exports, createRequire(file), module, file, dirname(file))
