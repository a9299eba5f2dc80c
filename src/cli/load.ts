import { createRequire } from 'node:module'

const requireFrom = createRequire(import.meta.url)

/**
 * Loads the module that does the work of a command, with the hundreds below it; `file` is its place beside this one, `later`
 * imports the same. Node reads modules that are required one after the other at once, and those that are imported by way
 * of its thread pool and several promises for each, which takes a start four tenths longer. Older releases of Node cannot
 * require what is no CommonJS.
 */
export async function load<M>(file: string, later: () => Promise<M>): Promise<M> {
  return process.features.require_module ? (requireFrom(file) as M) : await later()
}
