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

/** Nouns of the events about a created, changed or deleted record. They are older than the names of the resources. */
export const EVENT_NOUNS = [
  'agent_ingress',
  'api_key',
  'backend',
  'bot_user',
  'certificate_authority',
  'domain',
  'edge_https',
  'edge_https_route',
  'edge_tcp',
  'event_destination',
  'event_subscription',
  'ip_policy',
  'ip_policy_rule',
  'ip_restriction',
  'secret',
  'site_file',
  'ssh_certificate_authority',
  'ssh_host_certificate',
  'ssh_user_certificate',
  'tls_certificate',
  'tunnel_credential',
  'vault'
] as const

/** First part of the type of an audit event, as in `vault_created.v0`. */
export type EventNoun = (typeof EVENT_NOUNS)[number]

/** Nouns of events that others know and nothing here can cause: there are no such resources. */
const ABSENT_NOUNS: readonly string[] = ['ssh_public_key', 'tcp_address']

/** Events of traffic, of agents, of servers of backends and of guards of writes, which no resource makes. */
const TRAFFIC = [
  'agent_session_start',
  'agent_session_stop',
  'backend_server_down',
  'backend_server_up',
  'guard_broken',
  'guard_ended',
  'http_request_complete',
  'tcp_connection_closed'
] as const

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
  ...TRAFFIC.map((name) => `${name}.v0`)
].sort()

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

/** Links of `after` whose target `before` did not refer to: these must exist; an older one may be gone since. */
export function newLinks(resource: Resource, before: ResourceRecord | undefined, after: ResourceRecord): Link[] {
  const known = new Set(before === undefined ? [] : linksOf(resource, before).map(({ kind, id }) => `${kind} ${id}`))
  return linksOf(resource, after).filter(({ kind, id }) => !known.has(`${kind} ${id}`))
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
