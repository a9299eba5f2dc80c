import { Slices } from '../lib/slices.js'
import { didYouMean } from '../lib/suggest.js'
import { OF_FIELDS } from '../runtime/names.js'
import { policyKey } from '../runtime/plan.js'
import type { SnapshotHolder } from '../runtime/snapshot.js'
import { ControlError, controlErrors } from './errors.js'
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
      route: text(
        'Name of the route, such as shop.example.com/api, or of the site for the policy of the whole site, or an id; default: the policy that the options name.'
      ),
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

/** Maximum number of names that an error lists. */
const MAX_LISTED = 20

/**
 * Returns the policies by the keys of the units that they replace. A route or site may be given by its name, with or without the slash at the
 * end of a prefix. Fails with a ControlError `NOT_FOUND` that lists the names, or `FIELD_INVALID` if two of them mean one policy.
 */
export async function findReplaced(
  candidates: CandidatePolicies,
  holder: Pick<SnapshotHolder, 'current' | 'names'>
): Promise<CandidatePolicies> {
  const { units } = holder.current().plan
  const found = new Map<string, { readonly text: string; readonly source: string }>()
  let names: ReadonlyMap<string, string> | undefined
  for (const [given, candidate] of candidates) {
    let key: string | undefined = given
    if (units.get(given)?.kind !== 'policy') {
      names ??= await keysByName(units, holder.names)
      const { source } = candidate
      key = names.get(source) ?? names.get(`${source}/`)
      if (key === undefined) throw unknownRoute(source, [...names.keys()])
    }
    if (found.has(key)) throw refused('FIELD_INVALID', 'policies', 'must not have two policies of one route')
    found.set(key, candidate)
  }
  return found
}

/** Returns the keys of policies by the names of their routes and sites. */
async function keysByName(
  units: ReturnType<SnapshotHolder['current']>['plan']['units'],
  names: SnapshotHolder['names']
): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>()
  const slices = Slices.besideTraffic()
  for (const [key, unit] of units) {
    if (slices.due) await slices.rest()
    if (unit.kind === 'policy' && !unit.owner.endsWith(OF_FIELDS))
      found.set(names.ownerOf(unit.owner) ?? unit.owner, key)
  }
  return found
}

function unknownRoute(route: string, known: readonly string[]): ControlError {
  const rest = known.length - MAX_LISTED
  const listed = known.slice(0, MAX_LISTED).sort().join(', ')
  const all = known.length === 0 ? '; no route has one' : `; there are ${listed}${rest > 0 ? ` and ${rest} more` : ''}`
  const message = `no route ${route} with a traffic policy serves here${didYouMean(route, known)}${all}`
  return new ControlError(controlErrors.NOT_FOUND, message, { field: 'policies.route' })
}
