import { isDeepStrictEqual } from 'node:util'

/** Id and URL of an object of the API. */
export interface Saved {
  readonly id: string
  readonly uri?: string
}

/** Context of the answers of one family. */
export interface Context {
  readonly base: string
  /** Prefix of the object's id. */
  readonly prefix: string
  /** Path of the object's collection. */
  readonly path: string
  readonly saved: ReadonlyMap<string, Saved>
}

const id = (prefix: string) => new RegExp(`^${prefix}_[0-9A-Za-z]{27}$`)
const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isTime = (value: unknown) => typeof value === 'string' && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.test(value)

function isPathOf(value: unknown, { path, prefix }: Context): boolean {
  return typeof value === 'string' && value.startsWith(`${path}/`) && id(prefix).test(value.slice(path.length + 1))
}

function isReference(value: unknown, saved: Saved | undefined, { base }: Context): boolean {
  if (!isObject(value) || typeof value.uri !== 'string') return false
  if (saved !== undefined) return value.id === saved.id && value.uri === saved.uri
  return value.uri.startsWith(`${base}/`) && value.uri.endsWith(`/${value.id}`)
}

/** Checks of kinds, by the name after the colon; `more` is the word after it. */
const KINDS: Readonly<Record<string, (value: unknown, context: Context, more: string) => boolean>> = {
  any: () => true,
  boolean: (value) => typeof value === 'boolean',
  hex: (value) => typeof value === 'string' && /^(?:[0-9a-f]{2})+$/.test(value),
  hostport: (value) => typeof value === 'string' && /^[a-z0-9.-]+:\d{1,5}$/.test(value),
  id: (value, { prefix }, more) => typeof value === 'string' && id(more || prefix).test(value),
  number: (value) => typeof value === 'number',
  opaque: (value, { prefix }) => typeof value === 'string' && value.startsWith(`${prefix}_`),
  path: isPathOf,
  ref: (value, context, name) =>
    isReference(value, name === '' ? undefined : context.saved.get(name.slice(1)), context),
  text: (value) => typeof value === 'string',
  texts: (value) => Array.isArray(value) && value.every((item) => typeof item === 'string'),
  time: isTime,
  uri: (value, context) =>
    typeof value === 'string' && value.startsWith(context.base) && isPathOf(value.slice(context.base.length), context),
  user: (value) => isObject(value) && id('usr').test(String(value.id)) && value.uri === ''
}

/**
 * Returns why a value is not what a specification says, or undefined. A text with a colon in front names a kind; a question mark behind it
 * permits null. Any other value must be equal. An object may have members that the specification lacks.
 */
export function mismatch(spec: unknown, value: unknown, context: Context, at = 'answer'): string | undefined {
  if (typeof spec === 'string' && spec.startsWith(':')) {
    const [, kind = '', orNull, more = ''] = /^:(\w+)(\?)?(?: (\S+))?$/.exec(spec) ?? []
    if (value === null && orNull !== undefined) return undefined
    return KINDS[kind]?.(value, context, more) === true ? undefined : `${at} is no ${spec}: ${JSON.stringify(value)}`
  }
  if (Array.isArray(spec)) {
    if (!Array.isArray(value) || value.length !== spec.length) return `${at} has other items: ${JSON.stringify(value)}`
    return first(spec.map((item, index) => mismatch(item, value[index], context, `${at}[${index}]`)))
  }
  if (isObject(spec)) {
    if (!isObject(value)) return `${at} is no object: ${JSON.stringify(value)}`
    return first(
      Object.entries(spec).map(([name, item]) =>
        name in value ? mismatch(item, value[name], context, `${at}.${name}`) : `${at} lacks ${name}`
      )
    )
  }
  return isDeepStrictEqual(spec, value) ? undefined : `${at} is not ${JSON.stringify(spec)}: ${JSON.stringify(value)}`
}

function first(found: readonly (string | undefined)[]): string | undefined {
  return found.find((one) => one !== undefined)
}

/** Replaces `$name` by the id of what is saved under the name, in texts, keys and at any depth. */
export function filled<V>(value: V, saved: ReadonlyMap<string, Saved>): V {
  const fill = (text: string): string => text.replace(/\$([a-z]\w*)/g, (whole, name) => saved.get(name)?.id ?? whole)
  if (typeof value === 'string') return (value.startsWith(':') ? value : fill(value)) as V
  if (Array.isArray(value)) return value.map((item) => filled(item, saved)) as V
  if (!isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [fill(key), filled(item, saved)])) as V
}
