import { reportingVaults } from '../expression/vaults.js'
import type { ResourceRecord } from '../schema/field.js'
import { type CompileOptions, compilePolicy } from './compile.js'

/** Name of the module with the policy wherever a resource has it. */
export const POLICY_MODULE = 'traffic_policy'

/** The policy document that a record holds; undefined when it holds none. */
export function policyTextOf({ body }: Pick<ResourceRecord, 'body'>): string | undefined {
  return (body[POLICY_MODULE] as { readonly value: string } | null | undefined)?.value
}

/**
 * The vaults whose secrets the text of a policy reads, by their names; undefined among them when it reads one whose name is
 * known only at run time. A text that does not compile reads nothing.
 */
export function vaultsOf(
  text: string,
  { services, ...options }: Pick<CompileOptions, 'services' | 'actions' | 'carrier'>
): ReadonlySet<string | undefined> {
  const vaults = new Set<string | undefined>()
  compilePolicy(text, {
    ...options,
    owner: 'check',
    services: { ...services, expressions: reportingVaults(services.expressions, (vault) => vaults.add(vault)) },
    // Nothing is kept: counters belong to the policies that run.
    keep: { keep: (key, make) => make(JSON.stringify(key)) },
    unavailable: 'refuse'
  })
  return vaults
}
