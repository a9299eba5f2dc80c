import { type IncomingMessage, request } from 'node:http'

/** A stream of the API that is followed. */
export interface Stream {
  readonly status: number
  /** Resolves when it has ended, with the milliseconds since `from`. */
  endedSince(from: number): Promise<number>
  readonly open: boolean
  end(): void
}

/** A stream of events; `headers` have what says who calls. */
export function follow(
  port: number,
  headers: Readonly<Record<string, string>>,
  path = '/traffic/stream'
): Promise<Stream> {
  return new Promise((resolve, reject) => {
    const sent = request(
      { host: '127.0.0.1', port, path, agent: false, headers: { 'service-version': '2', ...headers } },
      (answer: IncomingMessage) => {
        let open = true
        const ended = new Promise<number>((over) => {
          answer.once('close', () => {
            open = false
            over(performance.now())
          })
        })
        answer.on('error', () => undefined).resume()
        resolve({
          status: answer.statusCode ?? 0,
          endedSince: async (from) => (await ended) - from,
          get open() {
            return open
          },
          end: () => sent.destroy()
        })
      }
    )
    sent.on('error', reject).end()
  })
}

/** The field with which a key calls. */
export const bearer = (key: string) => ({ authorization: `Bearer ${key}` })
