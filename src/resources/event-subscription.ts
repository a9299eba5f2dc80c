import Type from 'typebox'
import { didYouMean } from '../lib/suggest.js'
import { isObject } from './check.js'
import { eventDestination } from './event-destination.js'
import { EVENT_TYPES } from './event-types.js'
import { defineField, type Reading } from './field.js'
import { text } from './fields.js'
import { refs } from './references.js'
import { defineResource } from './resource.js'

const PATH = '/event_subscriptions'

interface Source {
  readonly type: string
}

const sources = defineField<readonly Source[]>({
  description: 'Types of events that are sent.',
  initial: [],
  required: true,
  request: Type.Array(
    Type.Object(
      { type: Type.Enum([...EVENT_TYPES], { description: 'Type of an event.' }) },
      { additionalProperties: false }
    ),
    { description: 'Types of events that are sent.', minItems: 1 }
  ),
  response: Type.Array(Type.Object({ type: Type.String(), uri: Type.String() }), {
    description: 'Types of events that are sent.'
  }),
  read: readSources,
  present: (stored, _path, { id }, { baseUrl }) =>
    stored.map(({ type }) => ({ type, uri: `${baseUrl}${PATH}/${id}/sources/${type}` }))
})

/** Sends events of some types to destinations. */
export const eventSubscription = defineResource({
  name: 'event_subscription',
  description: 'Sends events of the types that it names to its destinations.',
  path: PATH,
  listKey: 'event_subscriptions',
  idPrefix: 'esb',
  events: 'event_subscription',
  fields: {
    metadata: text({ description: 'For programs: data of the user, kept as it is.', characters: 4096 }),
    description: text({ description: 'For people: what it is for.', characters: 255 }),
    sources,
    destinations: refs(eventDestination, { description: 'Where the events go.' })
  },
  parts: [{ name: 'sources', field: 'sources', key: 'type' }]
})

function readSources(value: unknown, at: string, _path: string, reading: Reading): readonly Source[] | undefined {
  const refuse = (field: string, code: string, message: string) => {
    reading.report({ field, code, message })
    return undefined
  }
  if (!Array.isArray(value)) return refuse(at, 'FIELD_INVALID', 'must be a list of objects with a type')
  if (value.length === 0) return refuse(at, 'FIELD_INVALID', 'must not be empty')
  const read = value.map((item, index) => readSource(item, `${at}[${index}]`, reading))
  if (read.includes(undefined)) return undefined
  const types = (read as Source[]).map(({ type }) => type)
  const twice = types.findIndex((type, index) => types.indexOf(type) < index)
  return twice === -1 ? (read as Source[]) : refuse(`${at}[${twice}].type`, 'FIELD_INVALID', 'is named twice')
}

function readSource(value: unknown, at: string, reading: Reading): Source | undefined {
  const refuse = (field: string, code: string, message: string) => {
    reading.report({ field, code, message })
    return undefined
  }
  if (!isObject(value)) return refuse(at, 'FIELD_INVALID', 'must be an object')
  const { type } = value
  const other = Object.keys(value).find((key) => key !== 'type' && key !== 'uri')
  if (other !== undefined)
    return refuse(`${at}.${other.slice(0, 64)}`, 'FIELD_UNKNOWN', 'is not a field here; the field is type')
  if (type === undefined || type === null) return refuse(`${at}.type`, 'FIELD_REQUIRED', 'is required')
  if (typeof type === 'string' && EVENT_TYPES.includes(type)) return { type }
  const near = typeof type === 'string' && type.length < 64 ? didYouMean(type, EVENT_TYPES) : ''
  return refuse(`${at}.type`, 'FIELD_INVALID', `must be one of ${EVENT_TYPES.join(', ')}${near}`)
}
