import type { FieldCode } from '../schema/errors.js'
import type { Body, BodyOf, Fields, Link, Makers, Problem, ResourceRecord } from '../schema/field.js'
import { linksOfMembers, type Rule } from '../schema/objects.js'

/** API operations on a record. */
export type Operation = 'create' | 'get' | 'list' | 'update' | 'delete'

/** List inside a record whose entries have URLs below the record. */
export interface Part {
  /** Name in the path and key in responses. */
  readonly name: string
  /** Field with the list of objects. */
  readonly field: string
  /** Member that identifies an entry in the path. */
  readonly key: string
}

/** Context for generating values when a record is written: keys, signatures. */
export interface MakeView {
  readonly id: string
  readonly body: Body
  readonly before: Readonly<Body> | undefined
  readonly makers: Makers
  /** Seals a text under `path`. */
  secret(path: string, text: string): void
  /** Rejects the write. `field` as in requests. */
  report(field: string, code: FieldCode, message: string, details?: Problem['details']): void
}

interface ResourceDefinition<F extends Fields = Fields> {
  /** Record kind. */
  readonly name: string
  readonly description: string
  /** Collection path below the API's base URL; `{x}` is the value of field `x`, a parent's id. */
  readonly path: string
  /** Key of the list in responses. */
  readonly listKey: string
  readonly idPrefix: string
  readonly fields: F
  readonly rules?: readonly Rule[]
  readonly make?: (view: MakeView) => Promise<void>
  /** @default all */
  readonly operations?: readonly Operation[]
  /** Noun of its event types. @default changes cause no events */
  readonly events?: EventNoun
  readonly parts?: readonly Part[]
  /** Responses show the path of the record instead of a URL. */
  readonly relativeUri?: boolean
  /** Fields with a sub-path that supports only DELETE, besides the modules. */
  readonly clearable?: readonly string[]
}

/** Definition of one kind of API object. */
export interface Resource<F extends Fields = Fields> extends ResourceDefinition<F> {
  readonly rules: readonly Rule[]
  readonly operations: readonly Operation[]
  readonly parts: readonly Part[]
  readonly clearable: readonly string[]
  /** Names of the module fields. */
  readonly modules: readonly string[]
}

/** Typed record of this resource. */
export interface RecordOf<R extends Resource> extends ResourceRecord {
  readonly body: Readonly<BodyOf<R['fields']>>
}

const ALL: readonly Operation[] = ['create', 'get', 'list', 'update', 'delete']

/** Declares a resource. Throws a RangeError if the definition is inconsistent. */
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

/** Event nouns with descriptions. They are older than the resource names. */
const NOUNS = {
  abuse_report: 'An abuse report',
  agent_ingress: 'An agent ingress',
  api_key: 'An API key',
  backend: 'A backend',
  bot_user: 'A bot user',
  certificate_authority: 'A certificate authority',
  cloud_endpoint: 'A cloud endpoint',
  domain: 'A reserved domain',
  edge_https: 'An HTTPS edge',
  edge_https_route: 'A route of an HTTPS edge',
  edge_tcp: 'A TCP edge',
  edge_tls: 'A TLS edge',
  event_destination: 'An event destination',
  event_subscription: 'An event subscription',
  ip_policy: 'An IP policy',
  ip_policy_rule: 'A rule of an IP policy',
  ip_restriction: 'An IP restriction',
  secret: 'A secret of a vault',
  site_file: 'The site file',
  ssh_certificate_authority: 'An SSH certificate authority',
  ssh_host_certificate: 'An SSH host certificate',
  ssh_public_key: 'An SSH credential',
  ssh_user_certificate: 'An SSH user certificate',
  tcp_address: 'A reserved address',
  tls_certificate: 'A TLS certificate',
  tunnel_credential: 'A tunnel credential',
  vault: 'A vault'
} as const

/** All event nouns. */
export const EVENT_NOUNS = Object.keys(NOUNS) as EventNoun[]

/** First part of the type of an audit event, as in `vault_created.v0`. */
export type EventNoun = keyof typeof NOUNS

/** Events of traffic, agents, backend servers and guards of writes, which no resource causes. */
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

/** Returns the event type of a command. */
export function commandEventType(command: keyof typeof COMMANDS): string {
  return `${command}.v0`
}

const CHANGES = ['created', 'updated', 'deleted'] as const

type Change = (typeof CHANGES)[number]

/** Returns the event type of a change. */
export function eventType(noun: EventNoun, change: Change): string {
  return `${noun}_${change}.v0`
}

/** All event types for subscriptions, sorted. */
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

/** Returns when an event of this type is published; empty for an unknown type. */
export function eventMeaning(type: string): string {
  return MEANINGS.get(type) ?? ''
}

/** Value that is unique within its space. */
export interface Claim {
  readonly space: string
  readonly value: string
  /** Field as in requests. */
  readonly field: string
  /** Pool whose members share the value; the first of them holds it. @default one record alone */
  readonly pool?: string
}

/** Returns the space in which each member of a pool claims its own id. */
export function poolSpace(pool: string): string {
  return `pool ${pool}`
}

/** Returns the reference table rows of a record. */
export function linksOf(resource: Resource, record: ResourceRecord): Link[] {
  return linksOfMembers(resource.fields, record.body, '')
}

/** Returns kind and id of a record as one text. */
export function recordText({ kind, id }: { readonly kind: string; readonly id: string }): string {
  return `${kind} ${id}`
}

/** Returns the links of `after` that `before` did not have: their targets must exist; the target of an older link may have been deleted. */
export function newLinks(resource: Resource, before: ResourceRecord | undefined, after: ResourceRecord): Link[] {
  const known = new Set(before === undefined ? [] : linksOf(resource, before).map(recordText))
  return linksOf(resource, after).filter((link) => !known.has(recordText(link)))
}

/** Returns the unique values of the record: rows of the table of claims. */
export function claimsOf(resource: Resource, { id, body }: Pick<ResourceRecord, 'id' | 'body'>): Claim[] {
  return Object.entries(resource.fields).flatMap(([name, { unique, requestName }]): Claim[] => {
    if (unique === undefined) return []
    const { space, within, givenAs = name, shared } = unique
    const value = body[name]
    const values = Array.isArray(value) ? value : [value]
    const prefix = within.map((other) => body[other])
    const field = requestName(givenAs)
    const claims = values
      .filter((one) => one !== null && one !== undefined && one !== '')
      // Several values are a tuple, encoded unambiguously.
      .map((one) => ({ space, value: prefix.length === 0 ? String(one) : JSON.stringify([...prefix, one]), field }))
    if (shared === undefined || body[shared.flag] !== true) return claims
    const pool = String(body[shared.by])
    return [...claims.map((claim) => ({ ...claim, pool })), { space: poolSpace(pool), value: id, field }]
  })
}

/** Returns the request fields that only an administrator may set. */
export function adminFields(resource: Resource, body: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(resource.fields)
    .filter(([, { adminOnly }]) => adminOnly === true)
    .map(([name, { requestName }]) => requestName(name))
    .filter((name) => Object.hasOwn(body, name))
}
