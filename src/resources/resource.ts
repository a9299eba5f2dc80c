import type { FieldCode } from '../schema/errors.js'
import type { Body, BodyOf, Fields, Link, Makers, ResourceRecord } from '../schema/field.js'
import { linksOfMembers, type Rule } from '../schema/objects.js'

/** What the API can do with a record. */
export type Operation = 'create' | 'get' | 'list' | 'update' | 'delete'

/** A list inside the record whose entries have URLs of their own below the record. */
export interface Part {
  /** Its name in the path and its key in answers. */
  readonly name: string
  /** The field that holds it: a list of objects. */
  readonly field: string
  /** Member of an entry that names it in its path. */
  readonly key: string
}

/** What a resource makes itself when its record is written: keys, signatures. */
export interface MakeView {
  readonly id: string
  readonly body: Body
  readonly before: Readonly<Body> | undefined
  readonly makers: Makers
  /** A text to keep sealed under `path`. */
  secret(path: string, text: string): void
  /** Refuses the write. `field` as in requests. */
  report(field: string, code: FieldCode, message: string): void
}

interface ResourceDefinition<F extends Fields = Fields> {
  /** Kind of its records. */
  readonly name: string
  readonly description: string
  /** Collection, below the API's base URL; `{x}` stands for the value of the field `x`, which is a parent's id. */
  readonly path: string
  /** Key of the list in its envelope. */
  readonly listKey: string
  readonly idPrefix: string
  readonly fields: F
  readonly rules?: readonly Rule[]
  readonly make?: (view: MakeView) => Promise<void>
  /** All of them unless named. */
  readonly operations?: readonly Operation[]
  /** Noun of its event types; none when its changes are no events. */
  readonly events?: EventNoun
  readonly parts?: readonly Part[]
  /** Answers name the record by its path alone. */
  readonly relativeUri?: boolean
  /** Modules that a DELETE may address beside the modules proper: fields with a sub-path that can only be cleared. */
  readonly clearable?: readonly string[]
}

/** A kind of API object: everything that distinguishes it from the others. */
export interface Resource<F extends Fields = Fields> extends ResourceDefinition<F> {
  readonly rules: readonly Rule[]
  readonly operations: readonly Operation[]
  readonly parts: readonly Part[]
  readonly clearable: readonly string[]
  /** Names of the fields that are modules. */
  readonly modules: readonly string[]
}

/** A record of this resource, typed. */
export interface RecordOf<R extends Resource> extends ResourceRecord {
  readonly body: Readonly<BodyOf<R['fields']>>
}

const ALL: readonly Operation[] = ['create', 'get', 'list', 'update', 'delete']

/** Declares a resource. Throws a RangeError when the declaration contradicts itself. */
export function defineResource<const F extends Fields>(definition: ResourceDefinition<F>): Resource<F> {
  const { name, fields, rules = [], parts = [], clearable = [] } = definition
  const named = [...rules.flatMap(({ on }) => on), ...parts.map(({ field }) => field), ...clearable]
  for (const { unique } of Object.values<Fields[string]>(fields)) named.push(...(unique?.within ?? []))
  for (const [, parameter = ''] of definition.path.matchAll(/\{(\w+)\}/g)) named.push(parameter)
  for (const field of named) {
    if (!Object.hasOwn(fields, field)) throw new RangeError(`${name} has no field ${field}`)
  }
  return {
    ...definition,
    rules,
    parts,
    clearable,
    operations: definition.operations ?? ALL,
    modules: Object.keys(fields).filter((field) => fields[field]?.module === true)
  }
}

/** Nouns of the events about a created, changed or deleted record, with what each is. They are older than the names of the resources. */
const NOUNS = {
  agent_ingress: 'An agent ingress',
  api_key: 'An API key',
  backend: 'A backend',
  bot_user: 'A bot user',
  certificate_authority: 'A certificate authority',
  domain: 'A reserved domain',
  edge_https: 'An HTTPS edge',
  edge_https_route: 'A route of an HTTPS edge',
  edge_tcp: 'A TCP edge',
  event_destination: 'An event destination',
  event_subscription: 'An event subscription',
  ip_policy: 'An IP policy',
  ip_policy_rule: 'A rule of an IP policy',
  ip_restriction: 'An IP restriction',
  secret: 'A secret of a vault',
  site_file: 'The site file',
  ssh_certificate_authority: 'An SSH certificate authority',
  ssh_host_certificate: 'An SSH host certificate',
  ssh_user_certificate: 'An SSH user certificate',
  tls_certificate: 'A TLS certificate',
  tunnel_credential: 'A tunnel credential',
  vault: 'A vault'
} as const

/** The nouns by themselves. */
export const EVENT_NOUNS = Object.keys(NOUNS) as EventNoun[]

/** First part of the type of an audit event, as in `vault_created.v0`. */
export type EventNoun = keyof typeof NOUNS

/** Nouns of events that others know and nothing here can cause: there are no such resources. */
const ABSENT_NOUNS: readonly string[] = ['ssh_public_key', 'tcp_address']

/** Events of traffic, of agents, of servers of backends and of guards of writes, which no resource makes. */
const TRAFFIC: Readonly<Record<string, string>> = {
  agent_session_start: 'An agent has connected and authenticated.',
  agent_session_stop: 'The connection of an agent has ended.',
  backend_server_down: 'A server of a backend is judged to be down and gets no more requests.',
  backend_server_up: 'A server of a backend answers again and gets requests.',
  guard_broken: 'Traffic broke the guard of a write, which was taken back.',
  guard_ended: 'The time of the guard of a write is over, and the write stays.',
  http_request_complete: 'An exchange has ended: answered, refused or broken.',
  tcp_connection_closed: 'A connection through a TCP edge has ended.'
}

/** Events of commands, which change no record. */
const COMMANDS = { limit_bucket_reset: 'A bucket of a limit was reset by hand.' } as const

/** The type of the event of a command. */
export function commandEventType(command: keyof typeof COMMANDS): string {
  return `${command}.v0`
}

const CHANGES = ['created', 'updated', 'deleted'] as const

type Change = (typeof CHANGES)[number]

/** The type of the event of one change. */
export function eventType(noun: EventNoun, change: Change): string {
  return `${noun}_${change}.v0`
}

/** The resource that an event of this type would be about, when others have it and this version does not. */
export function absentNoun(type: string): string | undefined {
  return ABSENT_NOUNS.find((noun) => CHANGES.some((change) => type === `${noun}_${change}.v0`))
}

/** Every type that a subscription may name, sorted. */
export const EVENT_TYPES: readonly string[] = [
  ...EVENT_NOUNS.flatMap((noun) => CHANGES.map((change) => eventType(noun, change))),
  ...Object.keys(COMMANDS).map((name) => `${name}.v0`),
  ...Object.keys(TRAFFIC).map((name) => `${name}.v0`)
].sort()

const MEANINGS: ReadonlyMap<string, string> = new Map([
  ...Object.entries(NOUNS).flatMap(([noun, text]) =>
    CHANGES.map((change) => [eventType(noun as EventNoun, change), `${text} was ${change}.`] as const)
  ),
  ...Object.entries({ ...COMMANDS, ...TRAFFIC }).map(([name, text]) => [`${name}.v0`, text] as const)
])

/** When an event of this type is published; empty for a type that there is not. */
export function eventMeaning(type: string): string {
  return MEANINGS.get(type) ?? ''
}

/** A value that only one record may have in its space. */
interface Claim {
  readonly space: string
  readonly value: string
  /** As in requests. */
  readonly field: string
}

/** Rows of the reference table for a record. */
export function linksOf(resource: Resource, record: ResourceRecord): Link[] {
  return linksOfMembers(resource.fields, record.body, '')
}

/** A record's kind and id in one text. */
export function recordText({ kind, id }: { readonly kind: string; readonly id: string }): string {
  return `${kind} ${id}`
}

/** Links of `after` whose target `before` did not refer to: these must exist; an older one may be gone since. */
export function newLinks(resource: Resource, before: ResourceRecord | undefined, after: ResourceRecord): Link[] {
  const known = new Set(before === undefined ? [] : linksOf(resource, before).map(recordText))
  return linksOf(resource, after).filter((link) => !known.has(recordText(link)))
}

/** What the record takes for itself: rows of the table of claims. */
export function claimsOf(resource: Resource, { body }: ResourceRecord): Claim[] {
  return Object.entries(resource.fields).flatMap(([name, { unique, requestName }]) => {
    if (unique === undefined) return []
    const { space, within } = unique
    const value = body[name]
    const values = Array.isArray(value) ? value : [value]
    const prefix = within.map((other) => body[other])
    return values
      .filter((one) => one !== null && one !== undefined && one !== '')
      .map((one) => ({
        space,
        // Several values are a tuple, encoded so that no two tuples look alike.
        value: prefix.length === 0 ? String(one) : JSON.stringify([...prefix, one]),
        field: requestName(name)
      }))
  })
}

/** Names of the request's fields that only an administrator may give. */
export function adminFields(resource: Resource, body: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(resource.fields)
    .filter(([, { adminOnly }]) => adminOnly === true)
    .map(([name, { requestName }]) => requestName(name))
    .filter((name) => Object.hasOwn(body, name))
}
