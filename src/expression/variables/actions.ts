import type { Flow } from '../../flow/flow.js'
import type { Clock } from '../../lib/clock.js'
import { timestampText } from '../text.js'
import { engineValueAs } from '../values.js'
import type { VariableDefinition } from './definition.js'

/** Result fields of each action by its snake-case name: dotted field path → CEL type. */
export type ActionResults = Readonly<Record<string, Readonly<Record<string, string>>>>

/**
 * `actions.service.<name>.<field>`: what the last run of an action left. Absent until it ran.
 *
 * As in a message of Protocol Buffers, an empty text is a field that is not set: it reads as `''`, and `has()` says that it
 * is not there. An object such as `error`, `identity` or `res` is there when one of its fields is set.
 */
export function actionVariables(results: ActionResults): readonly VariableDefinition[] {
  return Object.entries(results).flatMap(([name, fields]) => {
    const root = `actions.service.${name}`
    const leaves = Object.entries(fields).map(
      ([field, type]): VariableDefinition => ({
        path: `${root}.${field}`,
        type,
        optional: true,
        present: (flow) => {
          const values = flow.results?.get(name)
          return values !== undefined && isSet(fieldOf(values, field))
        },
        read: (flow) => {
          const values = flow.results?.get(name)
          const value = values === undefined ? undefined : fieldOf(values, field)
          return value === undefined ? undefined : engineValueAs(type, value)
        }
      })
    )
    return [...leaves, ...objects(name, fields)]
  })
}

/** The objects above the fields: the whole result, and each inner object such as `oauth.identity`. */
function objects(name: string, fields: Readonly<Record<string, string>>): VariableDefinition[] {
  const prefixes = new Set([''])
  for (const field of Object.keys(fields)) {
    const names = field.split('.')
    for (let i = 1; i < names.length; i++) prefixes.add(`${names.slice(0, i).join('.')}.`)
  }
  return [...prefixes]
    .filter((prefix) => !Object.hasOwn(fields, prefix.slice(0, -1)))
    .map((prefix) => ({
      path: `actions.service.${name}${prefix === '' ? '' : `.${prefix.slice(0, -1)}`}`,
      type: 'map<string, dyn>',
      optional: true,
      closed: true,
      present: (flow: Flow) => {
        const values = flow.results?.get(name)
        if (values === undefined) return false
        return (
          prefix === '' ||
          Object.keys(fields).some((field) => field.startsWith(prefix) && isSet(fieldOf(values, field)))
        )
      },
      read: (flow: Flow) => {
        const values = flow.results?.get(name)
        return values === undefined ? undefined : objectOf(values, fields, prefix)
      }
    }))
}

/** Returns undefined for an inner object without published fields. */
function objectOf(
  values: Readonly<Record<string, unknown>>,
  fields: Readonly<Record<string, string>>,
  prefix: string
): Map<string, unknown> | undefined {
  const object = new Map<string, unknown>()
  for (const [field, type] of Object.entries(fields)) {
    if (!field.startsWith(prefix)) continue
    const value = fieldOf(values, field)
    if (value === undefined) continue
    let inner = object
    const names = field.slice(prefix.length).split('.')
    for (const step of names.slice(0, -1)) {
      const next = inner.get(step)
      const map = next instanceof Map ? next : new Map<string, unknown>()
      inner.set(step, map)
      inner = map
    }
    inner.set(names.at(-1) as string, engineValueAs(type, value))
  }
  return object.size === 0 && prefix !== '' ? undefined : object
}

function isSet(value: unknown): boolean {
  return value !== undefined && value !== ''
}

/** A field by its dotted path, published flat or nested. */
function fieldOf(values: Readonly<Record<string, unknown>>, field: string): unknown {
  // The names are declared ones; what costs something may be an accessor of a class.
  if (field in values) return values[field]
  let current: unknown = values
  for (const step of field.split('.')) {
    if (current instanceof Map) current = current.get(step)
    else if (typeof current === 'object' && current !== null && Object.hasOwn(current, step)) {
      current = (current as Record<string, unknown>)[step]
    } else return undefined
  }
  return current
}

const EMPTY: ReadonlyMap<string, unknown> = new Map()

/** `vars` as a whole; `vars.<name>` is resolved by the environment, for any name. */
export const varsVariables: readonly VariableDefinition[] = [
  { path: 'vars', type: 'map<string, dyn>', read: (flow) => flow.vars ?? EMPTY }
]

/** `time.now` is text of RFC 3339; `timestamp(time.now)` is the instant. */
export function timeVariables(clock: Clock): readonly VariableDefinition[] {
  let shown = Number.NaN
  let text = ''
  const read = () => {
    const now = clock.wall()
    if (now !== shown) {
      text = timestampText(new Date(now))
      shown = now
    }
    return text
  }
  return [{ path: 'time.now', type: 'string', read, instant: () => new Date(clock.wall()) }]
}
