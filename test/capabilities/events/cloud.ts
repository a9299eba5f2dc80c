import { Writable } from 'node:stream'
import { systemClock } from '../../../src/lib/clock.js'
import { createOutbound, type Outbound } from '../../../src/lib/http-client/outbound.js'
import type { ResourceRecord } from '../../../src/schema/field.js'

const outbound = createOutbound({ clock: systemClock, allowPrivate: true })

export const NO_OUTPUT = new Writable({ write: (_chunk, _encoding, done) => done() })

/** Leads every request to `to`, under the host that it was meant for; notes where that was. */
export function through(to: string, asked: string[]): Outbound {
  return {
    request(request) {
      asked.push(request.url)
      const { host, pathname, search } = new URL(request.url)
      const headers = [...(request.headers ?? []), 'host', host]
      return outbound.request({ ...request, url: new URL(`${pathname}${search}`, to).href, headers })
    },
    close: () => undefined
  }
}

/** An event destination as the store keeps it. */
export function destination(
  target: Readonly<Record<string, unknown>>,
  secrets: Record<string, string>
): ResourceRecord {
  const [name = ''] = Object.keys(target)
  return {
    kind: 'event_destination',
    id: 'ed_1',
    createdAt: '',
    body: { target: { name, value: target[name] } },
    secrets
  } as unknown as ResourceRecord
}
