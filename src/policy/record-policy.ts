import type { ResourceRecord } from '../schema/field.js'

/** Name of the module with the policy wherever a resource has it. */
export const POLICY_MODULE = 'traffic_policy'

/** The policy document that a record holds; undefined when it holds none. */
export function policyTextOf({ body }: Pick<ResourceRecord, 'body'>): string | undefined {
  return (body[POLICY_MODULE] as { readonly value: string } | null | undefined)?.value
}
