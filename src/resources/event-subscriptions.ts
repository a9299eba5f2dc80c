import Type from 'typebox'
import { isObject } from '../lib/json.js'
import { didYouMean } from '../lib/suggest.js'
import type { FieldCode } from '../schema/errors.js'
import { defineField, type Reading } from '../schema/field.js'
import { nullable, text } from '../schema/fields.js'
import { isZero } from '../schema/objects.js'
import { refs } from '../schema/references.js'
import * as values from '../schema/values.js'
import { TRAFFIC_FIELDS, trafficFieldsText } from '../telemetry/event-fields.js'
import { EventFilters } from '../telemetry/event-filter.js'
import { eventDestination } from './event-destinations.js'
import { defineResource, EVENT_TYPES } from './resource.js'

const PATH = '/event_subscriptions'
/** Maximum filter length in UTF-16 units. */
const LONGEST_FILTER = 8_192

interface Source {
  readonly type: string
  /** Fields of a traffic event. @default all */
  readonly fields?: readonly string[]
  /** Filter for traffic events only. */
  readonly filter?: string
}

const FIELDS = 'Fields that the events show, such as conn.client_ip; all of them when left out. Traffic events only.'
const FIELD = values.text({ description: 'Name of a field.' })
const ALL_FIELDS = `${FIELDS}\n${trafficFieldsText()}`
const FILTER = 'CEL over `ev`; only events for which it is true are sent. Traffic events only.'

const sources = defineField<readonly Source[]>({
  description: 'Types of events that are sent.',
  initial: [],
  required: true,
  request: values.list(
    values.object(
      {
        type: values.choice(EVENT_TYPES, { description: 'Type of an event.' }),
        fields: values.optional(nullable(values.list(FIELD, { description: ALL_FIELDS, min: 1 }))),
        filter: values.optional(nullable(values.text({ description: FILTER, max: LONGEST_FILTER })))
      },
      { description: 'A source of events.' }
    ),
    { description: 'Types of events that are sent.', min: 1 }
  ),
  response: Type.Array(
    Type.Object(
      {
        type: Type.String({ description: 'Type of an event.' }),
        uri: Type.String({ description: 'URL of the source.' }),
        fields: Type.Optional(Type.Array(FIELD, { description: FIELDS })),
        filter: Type.Optional(Type.String({ description: FILTER }))
      },
      { description: 'A source of events.' }
    ),
    { description: 'Types of events that are sent.' }
  ),
  read: readSources,
  present: (stored, _path, { id }, { baseUrl }) =>
    stored.map(({ type, fields, filter }) => ({
      type,
      uri: `${baseUrl}${PATH}/${id}/sources/${type}`,
      ...(fields === undefined ? {} : { fields }),
      ...(filter === undefined ? {} : { filter })
    }))
})

/** Sends events of selected types to destinations. */
export const eventSubscription = defineResource({
  name: 'event_subscription',
  description: 'Sends events of the types that it names to its destinations.',
  path: PATH,
  listKey: 'event_subscriptions',
  idPrefix: 'esb',
  events: 'event_subscription',
  fields: {
    metadata: text({ description: 'For programs: data of the user, kept as it is.', max: 4096 }),
    description: text({ description: 'For people: what it is for.', max: 255 }),
    sources,
    destinations: refs(eventDestination, { description: 'Where the events go.' })
  },
  parts: [{ name: 'sources', field: 'sources', key: 'type' }]
})

function refuse(reading: Reading, field: string, code: FieldCode, message: string): undefined {
  reading.report({ field, code, message })
}

function readSources(value: unknown, at: string, _path: string, reading: Reading): readonly Source[] | undefined {
  if (!Array.isArray(value)) return refuse(reading, at, 'FIELD_INVALID', 'must be a list of objects with a type')
  if (value.length === 0) return refuse(reading, at, 'FIELD_INVALID', 'must not be empty')
  const read = value.map((item, index) => readSource(item, `${at}[${index}]`, reading))
  if (read.includes(undefined)) return undefined
  const types = (read as Source[]).map(({ type }) => type)
  const twice = types.findIndex((type, index) => types.indexOf(type) < index)
  return twice === -1 ? (read as Source[]) : refuse(reading, `${at}[${twice}].type`, 'FIELD_INVALID', 'is named twice')
}

function readSource(value: unknown, at: string, reading: Reading): Source | undefined {
  if (!isObject(value)) return refuse(reading, at, 'FIELD_INVALID', 'must be an object')
  const { type } = value
  const other = Object.keys(value).find((key) => !MEMBERS.includes(key))
  if (other !== undefined)
    return refuse(
      reading,
      `${at}.${other.slice(0, 64)}`,
      'FIELD_UNKNOWN',
      'is not a field here; the fields are type, fields and filter'
    )
  if (type === undefined || type === null) return refuse(reading, `${at}.type`, 'FIELD_REQUIRED', 'is required')
  if (typeof type !== 'string' || !EVENT_TYPES.includes(type)) {
    const near = typeof type === 'string' && type.length < 64 ? didYouMean(type, EVENT_TYPES) : ''
    return refuse(reading, `${at}.type`, 'FIELD_INVALID', `must be one of ${EVENT_TYPES.join(', ')}${near}`)
  }
  const unset = reading.zeroIsAbsent === true && isZero(value.fields ?? null)
  const fields = readFields(type, unset ? undefined : (value.fields ?? undefined), `${at}.fields`, reading)
  const filter = readFilter(type, value.filter ?? undefined, `${at}.filter`, reading)
  if (fields === null || filter === null) return undefined
  return { type, ...(fields === undefined ? {} : { fields }), ...(filter === undefined ? {} : { filter }) }
}

const MEMBERS: readonly string[] = ['type', 'uri', 'fields', 'filter']
const ONLY_TRAFFIC = `is for ${[...TRAFFIC_FIELDS.keys()].join(' and ')} only`

/** Reads the fields; undefined if not given, null after a reported problem. */
function readFields(type: string, value: unknown, at: string, reading: Reading): readonly string[] | undefined | null {
  if (value === undefined) return undefined
  const refuse = (field: string, message: string) => {
    reading.report({ field, code: 'FIELD_INVALID', message })
    return null
  }
  const known = TRAFFIC_FIELDS.get(type)
  if (known === undefined) return refuse(at, ONLY_TRAFFIC)
  if (!Array.isArray(value) || value.length === 0) return refuse(at, 'must be a list of at least one name of a field')
  const names = Object.keys(known)
  const wrong = value.findIndex((name) => typeof name !== 'string' || !names.includes(name))
  if (wrong !== -1) {
    const name: unknown = value[wrong]
    const near = typeof name === 'string' && name.length < 64 ? didYouMean(name, names) : ''
    return refuse(`${at}[${wrong}]`, `must be one of ${names.join(', ')}${near}`)
  }
  return [...new Set(value as string[])]
}

/** Reads the filter; undefined if not given, null after a reported problem. */
function readFilter(type: string, value: unknown, at: string, reading: Reading): string | undefined | null {
  if (value === undefined || value === '') return undefined
  const refuse = (code: FieldCode, message: string) => {
    reading.report({ field: at, code, message })
    return null
  }
  if (!TRAFFIC_FIELDS.has(type)) return refuse('FIELD_INVALID', ONLY_TRAFFIC)
  if (typeof value !== 'string') return refuse('FIELD_INVALID', 'must be a text')
  if (value.length > LONGEST_FILTER) return refuse('TOO_LONG', `must not be longer than ${LONGEST_FILTER} characters`)
  const compiled = new EventFilters().compile(type, value)
  return compiled.ok ? value : refuse('FIELD_INVALID', `at ${compiled.start + 1}: ${compiled.message}`)
}
