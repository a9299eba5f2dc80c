import { type CompiledModule, type ModuleScope, unbuilt } from '../features/contract.js'
import { modules } from '../features/registry.js'
import type { PolicyServices } from '../policy/services.js'
import type { Draft } from './persistent-state.js'
import type { ModuleConfigs, SecretReference, SecretValues } from './plan.js'
import { secretValue } from './secrets.js'

/** Services and state for compiling modules. */
export interface ModuleCompilation {
  readonly services: PolicyServices
  readonly draft: Pick<Draft, 'for'>
  readonly secrets: SecretValues
}

/** Module configuration, with the references to its secrets by their paths. */
type ModuleConfig = Record<string, unknown> & { readonly secrets?: Readonly<Record<string, SecretReference>> }

/** Compiles the modules of a route or TCP edge, in order of execution; null for none. `unit`: its key; `owner`: its id. */
export function compileModules(
  configs: ModuleConfigs,
  unit: string,
  owner: string,
  { services, draft, secrets }: ModuleCompilation
): readonly CompiledModule[] | null {
  // Also without modules: state that the unit used before must be released.
  const { keep } = draft.for(unit)
  const names = Object.keys(configs)
  if (names.length === 0) return null
  const compiled: CompiledModule[] = names.filter((name) => !KNOWN.has(name)).map(unbuilt)
  for (const definition of modules) {
    const given = configs[definition.name] as ModuleConfig | readonly ModuleConfig[] | undefined
    if (given === undefined) continue
    for (const config of Array.isArray(given) ? (given as readonly ModuleConfig[]) : [given as ModuleConfig]) {
      const scope: ModuleScope = {
        owner,
        services,
        service: (key) => services.service(key),
        keep: (key, make) => keep(['module', definition.name, owner, ...key], make),
        secret: (path) => secretValue(config.secrets?.[path], secrets)
      }
      compiled.push(definition.compile(config, scope))
    }
  }
  return compiled
}

const KNOWN: ReadonlySet<string> = new Set(modules.map(({ name }) => name))
