import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gunzipSync } from 'node:zlib'
import { until } from '../../helpers/until.js'
import { WireMessage } from './wire-format.js'

type Value = string | number | boolean

/** A span as the receiver has read it, whatever form it came in. */
export interface ReceivedSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId: string
  readonly traceState: string
  readonly flags: number
  readonly name: string
  readonly kind: number
  readonly start: bigint
  readonly end: bigint
  readonly attributes: Readonly<Record<string, Value>>
  readonly events: readonly {
    readonly name: string
    readonly at: bigint
    readonly attributes: Readonly<Record<string, Value>>
  }[]
  readonly error: boolean
}

/** A point of a metric. */
export interface ReceivedPoint {
  readonly metric: string
  readonly kind: 'gauge' | 'sum' | 'histogram'
  readonly attributes: Readonly<Record<string, Value>>
  readonly value: number
  readonly cumulative: boolean
  readonly buckets: readonly number[]
  readonly bounds: readonly number[]
}

/** A request that came in. */
export interface ReceivedRequest {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly resource: Readonly<Record<string, Value>>
  readonly spans: readonly ReceivedSpan[]
  readonly points: readonly ReceivedPoint[]
}

interface Answer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Buffer
}

interface Teardown {
  teardown(run: () => unknown): void
}

/** A receiver of OTLP over HTTP that reads JSON and protobuf by itself. */
export class Receiver {
  readonly requests: ReceivedRequest[] = []
  /** Answers to the next requests; those that are not answered so are taken with 200. */
  readonly answers: (Answer | 'hang')[] = []
  /** Requests that were answered otherwise, or never. */
  turned = 0
  readonly #port: number

  private constructor(port: number) {
    this.#port = port
  }

  static async start(t: Teardown): Promise<Receiver> {
    let receiver: Receiver | undefined
    const server = createServer((request, response) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        const one = receiver as Receiver
        const answer = one.answers.shift() ?? { status: 200 }
        if (answer === 'hang') {
          one.turned++
          return
        }
        const whole = Buffer.concat(chunks)
        const body = request.headers['content-encoding'] === 'gzip' ? gunzipSync(whole) : whole
        if (answer.status === 200) one.requests.push(read(request.url ?? '', request.headers, body))
        else one.turned++
        response.writeHead(answer.status, answer.headers).end(answer.body)
      })
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => {
      server.closeAllConnections()
      server.close()
    })
    receiver = new Receiver((server.address() as AddressInfo).port)
    return receiver
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  get spans(): ReceivedSpan[] {
    return this.requests.flatMap(({ spans }) => spans)
  }

  /** As soon as so many spans are there. */
  async received(count: number): Promise<ReceivedSpan[]> {
    await until(() => this.spans.length >= count)
    return this.spans
  }
}

function read(path: string, headers: IncomingHttpHeaders, body: Buffer): ReceivedRequest {
  const type = headers['content-type']
  if (type === 'application/json') return { path, headers, ...readJson(JSON.parse(body.toString('utf8'))) }
  if (type === 'application/x-protobuf') return { path, headers, ...readProtobuf(path, new WireMessage(body)) }
  throw new Error(`${type} is no form of OTLP`)
}

type Content = Pick<ReceivedRequest, 'resource' | 'spans' | 'points'>

// biome-ignore lint/suspicious/noExplicitAny: JSON of any form is read, and what is not there fails.
type Json = any

function readJson(message: Json): Content {
  const [group] = message.resourceSpans ?? message.resourceMetrics
  const [scope] = group.scopeSpans ?? group.scopeMetrics
  return {
    resource: jsonAttributes(group.resource.attributes),
    spans: (scope.spans ?? []).map((span: Json) => ({
      traceId: span.traceId,
      spanId: span.spanId,
      parentSpanId: span.parentSpanId ?? '',
      traceState: span.traceState ?? '',
      flags: span.flags,
      name: span.name,
      kind: span.kind,
      start: BigInt(span.startTimeUnixNano),
      end: BigInt(span.endTimeUnixNano),
      attributes: jsonAttributes(span.attributes),
      events: (span.events ?? []).map((event: Json) => ({
        name: event.name,
        at: BigInt(event.timeUnixNano),
        attributes: jsonAttributes(event.attributes)
      })),
      error: span.status?.code === 2
    })),
    points: (scope.metrics ?? []).flatMap((metric: Json) => {
      const kind = metric.gauge !== undefined ? 'gauge' : metric.sum !== undefined ? 'sum' : 'histogram'
      return metric[kind].dataPoints.map((point: Json) => ({
        metric: metric.name,
        kind,
        attributes: jsonAttributes(point.attributes),
        value: point.asDouble ?? Number(point.count),
        cumulative: metric[kind].aggregationTemporality === 2,
        buckets: (point.bucketCounts ?? []).map(Number),
        bounds: point.explicitBounds ?? []
      }))
    })
  }
}

function jsonAttributes(list: Json): Record<string, Value> {
  return Object.fromEntries(
    list.map(({ key, value }: Json) => {
      const { stringValue, boolValue, intValue, doubleValue } = value
      return [key, stringValue ?? boolValue ?? (intValue === undefined ? doubleValue : Number(intValue))]
    })
  )
}

/** Numbers of fields as opentelemetry-proto declares them. */
function readProtobuf(path: string, message: WireMessage): Content {
  const [group] = message.messages(1)
  const [scope] = group?.messages(2) ?? []
  const [resource] = group?.messages(1) ?? []
  const items = scope?.messages(2) ?? []
  const metrics = path.endsWith('metrics')
  return {
    resource: attributes(resource?.messages(1)),
    spans: metrics ? [] : items.map(protobufSpan),
    points: metrics ? items.flatMap(protobufPoints) : []
  }
}

function protobufSpan(span: WireMessage): ReceivedSpan {
  return {
    traceId: span.hex(1),
    spanId: span.hex(2),
    traceState: span.text(3),
    parentSpanId: span.hex(4),
    name: span.text(5),
    kind: Number(span.integer(6)),
    start: span.integer(7),
    end: span.integer(8),
    attributes: attributes(span.messages(9)),
    events: span.messages(11).map((event) => ({
      at: event.integer(1),
      name: event.text(2),
      attributes: attributes(event.messages(3))
    })),
    error: span.messages(15)[0]?.integer(3) === 2n,
    flags: Number(span.integer(16))
  }
}

function protobufPoints(metric: WireMessage): ReceivedPoint[] {
  const kinds = [
    [5, 'gauge'],
    [7, 'sum'],
    [9, 'histogram']
  ] as const
  const [field, kind] = kinds.find(([number]) => metric.has(number)) ?? [0, 'gauge']
  const [data] = metric.messages(field)
  return (data?.messages(1) ?? []).map((point) => ({
    metric: metric.text(1),
    kind,
    attributes: attributes(point.messages(kind === 'histogram' ? 9 : 7)),
    value: kind === 'histogram' ? Number(point.integer(4)) : point.double(4),
    cumulative: data?.integer(2) === 2n,
    buckets: kind === 'histogram' ? point.packed(6).map((bytes) => Number(bytes.readBigUInt64LE())) : [],
    bounds: kind === 'histogram' ? point.packed(7).map((bytes) => bytes.readDoubleLE()) : []
  }))
}

function attributes(list: readonly WireMessage[] = []): Record<string, Value> {
  return Object.fromEntries(
    list.map((pair) => {
      const [value] = pair.messages(2)
      if (value === undefined) throw new Error(`${pair.text(1)} has no value`)
      if (value.has(1)) return [pair.text(1), value.text(1)]
      if (value.has(2)) return [pair.text(1), value.integer(2) === 1n]
      return [pair.text(1), value.has(3) ? Number(BigInt.asIntN(64, value.integer(3))) : value.double(4)]
    })
  )
}
