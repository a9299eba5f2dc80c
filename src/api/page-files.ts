import { basename, dirname } from 'node:path'
import type { FastifyReply, FastifyRequest } from 'fastify'

/**
 * Returns the content security policy of a page: it may load only its own files, and send no data elsewhere. `scripts`: further sources of
 * scripts.
 */
export function pagePolicy(...scripts: readonly string[]): string {
  return [
    "default-src 'none'",
    ["script-src 'self'", ...scripts].join(' '),
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'"
  ].join('; ')
}

/** Adds the security headers of a page with this policy. */
export function secured(reply: FastifyReply, policy: string): FastifyReply {
  return reply.header('content-security-policy', policy).header('referrer-policy', 'no-referrer')
}

/**
 * Sends a file of the program, with conditions and ranges of the request (RFC 9110 13, 14). `file`: its path; `maxAge`: cache time of browsers,
 * milliseconds or a text such as `1h`. Fails with an error that has its status if a condition is not met.
 */
export async function sendShipped(
  request: FastifyRequest,
  reply: FastifyReply,
  file: string,
  maxAge: string | number
): Promise<FastifyReply> {
  // Loaded for the first file: a library of it asks for the line that loads it, for which V8 counts all lines of the program.
  const { default: send } = await import('@fastify/send')
  const options = { root: dirname(file), maxAge }
  const { statusCode, headers, stream, type, metadata } = await send(
    request.raw,
    encodeURI(`/${basename(file)}`),
    options
  )
  if (type === 'error') throw metadata.error
  return reply.code(statusCode).headers(headers).send(stream)
}
