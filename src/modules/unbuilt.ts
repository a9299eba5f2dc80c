import { refuse } from '../flow/verdict.js'
import type { CompiledModule } from './contract.js'

/** Stands for a module that is configured and that this version does not have: what it should protect stays shut. */
export function unbuilt(name: string): CompiledModule {
  const verdict = refuse(503, 'MODULE_UNAVAILABLE')
  return { name, request: () => verdict, connect: () => verdict }
}
