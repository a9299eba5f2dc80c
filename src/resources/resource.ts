import type { EventNoun } from './event-types.js'
import type { Body, BodyOf, Fields, Makers, ResourceRecord } from './field.js'
import type { Rule } from './members.js'

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
  report(field: string, code: string, message: string): void
}

export interface ResourceDefinition<F extends Fields = Fields> {
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

/** A kind of API object: everything that tells it from the others. */
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
