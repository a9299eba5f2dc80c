import { policyKey } from '../runtime/plan.js'
import { listOf, membersOf, nameOf, refused, textOf } from './request-body.js'

/** Policies instead of those that serve, by the keys of their units. `source`: the route that a message names. */
export type CandidatePolicies = ReadonlyMap<string, { readonly text: string; readonly source: string }>

const text = (description: string) => ({ type: 'string', description })

/** JSON Schema of the member `policies` of bodies. */
export const CANDIDATES_SCHEMA = {
  type: 'array',
  description: 'Traffic policies that are tried instead of those that serve.',
  items: {
    type: 'object',
    properties: {
      route: text('Id of the route; default: the policy that the options name.'),
      text: text('The policy document: YAML or JSON.')
    },
    required: ['route', 'text'],
    additionalProperties: false
  }
} as const

/** Reads that member. Fails with a ControlError `FIELD_INVALID`, `FIELD_REQUIRED` or `FIELD_UNKNOWN`. */
export function candidatesOf(value: unknown): CandidatePolicies {
  const candidates = new Map<string, { readonly text: string; readonly source: string }>()
  for (const [index, one] of listOf(value, 'policies').entries()) {
    const at = `policies[${index}]`
    const { route, text: document } = membersOf(one, at, ['route', 'text'])
    const id = nameOf(route, `${at}.route`)
    if (candidates.has(policyKey(id))) throw refused('FIELD_INVALID', `${at}.route`, 'must not be there twice')
    candidates.set(policyKey(id), { text: textOf(document, `${at}.text`), source: id })
  }
  return candidates
}
