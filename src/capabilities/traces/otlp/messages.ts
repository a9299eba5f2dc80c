import type { Message } from './protobuf.js'

/*
 * The messages of OTLP (opentelemetry-proto 1.x), with the names of its JSON mapping: what is built is the same for both encodings.
 * Identifiers are hexadecimal texts, times are nanoseconds since the Unix epoch as decimal texts.
 */

/** A value of any type. */
type AnyValue =
  | { readonly stringValue: string }
  | { readonly boolValue: boolean }
  | { readonly intValue: string }
  | { readonly doubleValue: number }

/** An attribute. */
export interface KeyValue {
  readonly key: string
  readonly value: AnyValue
}

/** Kinds of spans. */
export const KIND = { server: 2, client: 3 } as const
/** The state of a span that is an error. */
export const STATUS_ERROR = 2

/** A span. */
export interface Span {
  readonly traceId: string
  readonly spanId: string
  readonly traceState?: string
  readonly parentSpanId?: string
  readonly flags: number
  readonly name: string
  readonly kind: number
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly attributes: readonly KeyValue[]
  readonly events?: readonly {
    readonly timeUnixNano: string
    readonly name: string
    readonly attributes: readonly KeyValue[]
  }[]
  readonly droppedEventsCount?: number
  readonly status?: { readonly code: number; readonly message?: string }
}

/** A value of a metric at a time. */
interface NumberPoint {
  readonly attributes: readonly KeyValue[]
  readonly startTimeUnixNano?: string
  readonly timeUnixNano: string
  readonly asDouble: number
}

/** A distribution. */
export interface HistogramPoint {
  readonly attributes: readonly KeyValue[]
  readonly startTimeUnixNano: string
  readonly timeUnixNano: string
  readonly count: string
  readonly sum: number
  /** One more than there are bounds. */
  readonly bucketCounts: readonly string[]
  readonly explicitBounds: readonly number[]
}

/** Counts since the start. */
export const CUMULATIVE = 2

/** A metric with its points. */
export interface Metric {
  readonly name: string
  readonly description: string
  readonly unit?: string
  readonly gauge?: { readonly dataPoints: readonly NumberPoint[] }
  readonly sum?: {
    readonly dataPoints: readonly NumberPoint[]
    readonly aggregationTemporality: number
    readonly isMonotonic: boolean
  }
  readonly histogram?: { readonly dataPoints: readonly HistogramPoint[]; readonly aggregationTemporality: number }
}

const ANY_VALUE: Message = {
  stringValue: [1, 'string'],
  boolValue: [2, 'bool'],
  intValue: [3, 'int64'],
  doubleValue: [4, 'double']
}
const KEY_VALUE: Message = { key: [1, 'string'], value: [2, () => ANY_VALUE] }
const ATTRIBUTES = (field: number): Message[string] => [field, () => KEY_VALUE, 'repeated']
const EVENT: Message = { timeUnixNano: [1, 'fixed64'], name: [2, 'string'], attributes: ATTRIBUTES(3) }
const STATUS: Message = { message: [2, 'string'], code: [3, 'enum'] }
const RESOURCE: Message = { attributes: ATTRIBUTES(1) }
const SCOPE: Message = { name: [1, 'string'], version: [2, 'string'] }

/** Fields of `Span`. */
const SPAN: Message = {
  traceId: [1, 'hex'],
  spanId: [2, 'hex'],
  traceState: [3, 'string'],
  parentSpanId: [4, 'hex'],
  name: [5, 'string'],
  kind: [6, 'enum'],
  startTimeUnixNano: [7, 'fixed64'],
  endTimeUnixNano: [8, 'fixed64'],
  attributes: ATTRIBUTES(9),
  events: [11, () => EVENT, 'repeated'],
  droppedEventsCount: [12, 'uint32'],
  status: [15, () => STATUS],
  flags: [16, 'fixed32']
}

const NUMBER_POINT: Message = {
  startTimeUnixNano: [2, 'fixed64'],
  timeUnixNano: [3, 'fixed64'],
  asDouble: [4, 'double'],
  attributes: ATTRIBUTES(7)
}
const HISTOGRAM_POINT: Message = {
  startTimeUnixNano: [2, 'fixed64'],
  timeUnixNano: [3, 'fixed64'],
  count: [4, 'fixed64'],
  sum: [5, 'double'],
  bucketCounts: [6, 'fixed64', 'repeated'],
  explicitBounds: [7, 'double', 'repeated'],
  attributes: ATTRIBUTES(9)
}
const GAUGE: Message = { dataPoints: [1, () => NUMBER_POINT, 'repeated'] }
const SUM: Message = { ...GAUGE, aggregationTemporality: [2, 'enum'], isMonotonic: [3, 'bool'] }
const HISTOGRAM: Message = {
  dataPoints: [1, () => HISTOGRAM_POINT, 'repeated'],
  aggregationTemporality: [2, 'enum']
}

/** Fields of `Metric`. */
const METRIC: Message = {
  name: [1, 'string'],
  description: [2, 'string'],
  unit: [3, 'string'],
  gauge: [5, () => GAUGE],
  sum: [7, () => SUM],
  histogram: [9, () => HISTOGRAM]
}

/** Structure of a request: the names of its parts, and the fields of an item. */
export interface Signal {
  readonly name: 'traces' | 'metrics'
  readonly item: Message
  readonly names: readonly [resources: string, scopes: string, items: string]
}

/** Structure of a request to `/v1/traces`. */
export const TRACES: Signal = {
  name: 'traces',
  item: SPAN,
  names: ['resourceSpans', 'scopeSpans', 'spans']
}
/** Structure of a request to `/v1/metrics`. */
export const METRICS: Signal = {
  name: 'metrics',
  item: METRIC,
  names: ['resourceMetrics', 'scopeMetrics', 'metrics']
}

/** The whole request around items that are encoded already. */
export function requestMessage({ item, names: [resources, scopes, items] }: Signal): Message {
  const ofScope: Message = { scope: [1, () => SCOPE], [items]: [2, () => item, 'repeated'] }
  const ofResource: Message = { resource: [1, () => RESOURCE], [scopes]: [2, () => ofScope, 'repeated'] }
  return { [resources]: [1, () => ofResource, 'repeated'] }
}

/** Attributes out of names and values; a whole number is an integer. */
export function attributesOf(values: Readonly<Record<string, string | number | boolean | undefined>>): KeyValue[] {
  const attributes: KeyValue[] = []
  for (const [key, value] of Object.entries(values)) {
    addAttribute(attributes, key, value)
  }
  return attributes
}

/** Adds an attribute to a list, unless it has no value. */
export function addAttribute(list: KeyValue[], key: string, value: string | number | boolean | undefined): void {
  if (value !== undefined) list.push({ key, value: anyValue(value) })
}

function anyValue(value: string | number | boolean): AnyValue {
  if (typeof value === 'string') return { stringValue: value }
  if (typeof value === 'boolean') return { boolValue: value }
  return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value }
}

/** Nanoseconds since the Unix epoch, of milliseconds; to the microsecond, which is as much as a number of 64 bits holds. */
export function nanoseconds(milliseconds: number): string {
  return `${Math.round(milliseconds * 1_000)}000`
}
