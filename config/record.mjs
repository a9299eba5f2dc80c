import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setFlagsFromString } from 'node:v8'

/** `node record.mjs MAIN CACHE ARGUMENT…`: runs the program MAIN, and writes what V8 has compiled of it by its end to CACHE. */
const [node, , main, cache, ...words] = process.argv
process.argv = [node, main, ...words]
await import(main)
const { script } = await import(join(dirname(main), 'launch.mjs'))
process.on('exit', () => {
  // V8 takes it only where its flags are the same, and a program that carries traffic changes this one.
  setFlagsFromString('--heap-growing-percent=0')
  writeFileSync(cache, script.createCachedData())
})
