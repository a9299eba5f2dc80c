import { respond, type Verdict } from '../../flow/verdict.js'
import type { WebhookRequest } from './scheme.js'

/** Answers a question by which a sender tests a URL before it sends there. Undefined: the request is no such question. */
export type Challenge = (request: WebhookRequest, secret: string) => Verdict | undefined

/** Nothing that a browser would take for a page, whatever it says. */
export function answer(type: 'text/plain' | 'application/json', text: string): Verdict {
  const headers = ['content-type', `${type}; charset=utf-8`, 'x-content-type-options', 'nosniff']
  return respond(200, headers, Buffer.from(text, 'utf8'))
}

/** The one value of a parameter of the query. */
export function parameter({ target }: WebhookRequest, name: string): string | undefined {
  const mark = target.indexOf('?')
  if (mark === -1) return undefined
  const values = new URLSearchParams(target.slice(mark + 1)).getAll(name)
  return values.length === 1 ? values[0] : undefined
}
