import { KEY } from './asking.js'

interface NgrokAnswer {
  readonly status: number
  // biome-ignore lint/suspicious/noExplicitAny: answers are looked at member by member.
  readonly json: any
}

/** Sends a request; a body is sent as JSON. */
export type NgrokAsk = (
  path: string,
  asked?: { readonly method?: string; readonly body?: unknown }
) => Promise<NgrokAnswer>

/** A client that sends what clients of ngrok send: their version header in place of ours. */
export function ngrokClient(host: string, port: number): NgrokAsk {
  return async (path, { method = 'GET', body } = {}) => {
    const answer = await fetch(`http://${host}:${port}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${KEY}`,
        'ngrok-version': '2',
        ...(body === undefined ? {} : { 'content-type': 'application/json' })
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    const text = await answer.text()
    return { status: answer.status, json: text === '' ? undefined : JSON.parse(text) }
  }
}
