import type { FastifyReply, FastifyRequest } from 'fastify'

/** Seconds for which a browser remembers the answer to a preflight. */
const MAX_AGE = 600

/** Response headers that a page may read. */
const EXPOSED = 'etag, retry-after, service-operation-id, service-revision'

/**
 * Cross-origin access for the pages of named origins (Fetch standard, 3.2). There are no credentials in its sense: a key
 * is a header that the page itself sets.
 */
export class Cors {
  readonly #origins: ReadonlySet<string>

  /** Origins as browsers write them: `https://console.example.com`. */
  constructor(origins: Iterable<string>) {
    this.#origins = new Set(origins)
  }

  knows(origin: string | undefined): boolean {
    return origin !== undefined && this.#origins.has(origin)
  }

  /** Lets the page read the answer. */
  allow(request: FastifyRequest, reply: FastifyReply): void {
    reply.header('vary', 'origin')
    const { origin } = request.headers
    if (origin === undefined || !this.knows(origin)) return
    reply.header('access-control-allow-origin', origin).header('access-control-expose-headers', EXPOSED)
  }

  isPreflight({ method, headers }: FastifyRequest): boolean {
    return method === 'OPTIONS' && this.knows(headers.origin) && headers['access-control-request-method'] !== undefined
  }

  /** `methods` are those of the path. */
  answerPreflight(methods: readonly string[], request: FastifyRequest, reply: FastifyReply): FastifyReply {
    const wanted = request.headers['access-control-request-headers']
    if (wanted !== undefined) reply.header('access-control-allow-headers', wanted)
    return reply
      .code(204)
      .header('access-control-allow-methods', methods.join(', '))
      .header('access-control-max-age', String(MAX_AGE))
      .send()
  }
}
