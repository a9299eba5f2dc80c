import type { KeyValue, Signal } from './messages.js'
import { requestMessage } from './messages.js'
import { encodeMessage, readFields } from './protobuf.js'

/** A form of OTLP over HTTP, as OpenTelemetry names it. */
type Protocol = 'http/protobuf' | 'http/json'

/** Resource attributes and program version of the sender. */
export interface Sender {
  readonly attributes: readonly KeyValue[]
  readonly version: string
}

/** An item that is encoded. */
export type EncodedItem = string | Uint8Array

/** Encodes requests: items one by one, so that the work can be sliced, and then the envelope. */
export interface Encoding {
  readonly contentType: string
  item(item: object): EncodedItem
  request(items: readonly EncodedItem[]): Uint8Array
  /** Returns the items rejected by a response with status 200 (`partial_success`); undefined if none were. */
  rejected(body: Uint8Array): Rejected | undefined
}

/** Items that a receiver has not taken, and why. */
interface Rejected {
  readonly items: number
  readonly message: string
}

const SCOPE_NAME = 'sluice'

/** The encoding of a signal in a form. */
export function encodingOf(protocol: Protocol, signal: Signal, sender: Sender): Encoding {
  return protocol === 'http/json' ? new JsonEncoding(signal, sender) : new ProtobufEncoding(signal, sender)
}

class JsonEncoding implements Encoding {
  readonly contentType = 'application/json'
  readonly #before: string
  readonly #signal: Signal

  constructor(signal: Signal, { attributes, version }: Sender) {
    const [resources, scopes, items] = signal.names
    this.#signal = signal
    const resource = JSON.stringify({ attributes })
    const scope = JSON.stringify({ name: SCOPE_NAME, version })
    this.#before = `{"${resources}":[{"resource":${resource},"${scopes}":[{"scope":${scope},"${items}":[`
  }

  item(item: object): string {
    return JSON.stringify(item)
  }

  request(items: readonly EncodedItem[]): Uint8Array {
    return Buffer.from(`${this.#before}${items.join(',')}]}]}]}`)
  }

  rejected(body: Uint8Array): Rejected | undefined {
    let said: unknown
    try {
      said = JSON.parse(Buffer.from(body).toString())
    } catch {
      return undefined
    }
    const partial = member(said, 'partialSuccess')
    const count = Number(member(partial, this.#signal.name === 'traces' ? 'rejectedSpans' : 'rejectedDataPoints') ?? 0)
    const message = member(partial, 'errorMessage')
    return rejection(count, typeof message === 'string' ? message : '')
  }
}

function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>)[name] : undefined
}

function rejection(items: number, message: string): Rejected | undefined {
  return Number.isSafeInteger(items) && items > 0 ? { items, message } : undefined
}

class ProtobufEncoding implements Encoding {
  readonly contentType = 'application/x-protobuf'
  readonly #signal: Signal
  readonly #sender: Sender

  constructor(signal: Signal, sender: Sender) {
    this.#signal = signal
    this.#sender = sender
  }

  item(item: object): Uint8Array {
    return encodeMessage(this.#signal.item, item)
  }

  request(items: readonly EncodedItem[]): Uint8Array {
    const [ofResources, ofScopes, ofItems] = this.#signal.names
    const { attributes, version } = this.#sender
    const scope = { scope: { name: SCOPE_NAME, version }, [ofItems]: items }
    return encodeMessage(requestMessage(this.#signal), {
      [ofResources]: [{ resource: { attributes }, [ofScopes]: [scope] }]
    })
  }

  rejected(body: Uint8Array): Rejected | undefined {
    // ExportTraceServiceResponse and its like: partial_success = 1, in it rejected_… = 1 and error_message = 2.
    const partial = readFields(body)?.find(({ field }) => field === 1)?.value
    if (!(partial instanceof Uint8Array)) return undefined
    const fields = readFields(partial) ?? []
    const count = fields.find(({ field }) => field === 1)?.value
    const message = fields.find(({ field }) => field === 2)?.value
    return rejection(
      typeof count === 'bigint' ? Number(count) : 0,
      message instanceof Uint8Array ? Buffer.from(message).toString() : ''
    )
  }
}
