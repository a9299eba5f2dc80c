import type { Json } from '../lib/json.js'

/** Who caused an event, as the event shows it. */
export type EventPrincipal = {
  readonly id: string
  readonly subject: string
  readonly source: 'API'
  /** The API key that was used; null for keys of the operator. */
  readonly credential: { readonly id: string; readonly uri: string } | null
}

/** An event as destinations get it. */
export type Envelope = {
  /** `ev_` and a KSUID; the same in every repetition, so that a receiver can tell them. */
  readonly event_id: string
  readonly event_type: string
  /** RFC 3339 with milliseconds, UTC. */
  readonly event_timestamp: string
  readonly account_id: string
  /** Null when nobody asked for it: traffic, agents. */
  readonly principal: EventPrincipal | null
  readonly object: Json
}

/** What an envelope is made from; `at` in milliseconds since the Unix epoch. */
export interface EnvelopeParts {
  readonly id: string
  readonly type: string
  readonly at: number
  readonly account: string
  readonly principal: EventPrincipal | null
  readonly object: Json
}

export function envelope({ id, type, at, account, principal, object }: EnvelopeParts): Envelope {
  return {
    event_id: id,
    event_type: type,
    event_timestamp: new Date(at).toISOString(),
    account_id: account,
    principal,
    object
  }
}

/** What every envelope has. */
export type EventHead = Pick<Envelope, 'event_id' | 'event_type' | 'event_timestamp'>

/** Reads the head of an envelope from its text; undefined when the text is none. */
export function readHead(body: string): EventHead | undefined {
  try {
    const value = JSON.parse(body) as Readonly<Record<string, unknown>> | null
    const { event_id, event_type, event_timestamp } = value ?? {}
    if (typeof event_id !== 'string' || typeof event_type !== 'string' || typeof event_timestamp !== 'string')
      return undefined
    return { event_id, event_type, event_timestamp }
  } catch {
    return undefined
  }
}
