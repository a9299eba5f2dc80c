import type { ResourceRecord } from '../schema/field.js'

/** Name of the policy module in every resource that has one. */
export const POLICY_MODULE = 'traffic_policy'

/** Returns the policy document of a record, or undefined if it has none. */
export function policyTextOf({ body }: Pick<ResourceRecord, 'body'>): string | undefined {
  return (body[POLICY_MODULE] as { readonly value: string } | null | undefined)?.value
}
