import 'reflect-metadata'
import { once } from 'node:events'
import { connect as connectH2 } from 'node:http2'
import { request } from 'node:https'
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls'
import { BasicConstraintsExtension, SubjectAlternativeNameExtension } from '@peculiar/x509'
import { issue } from '../resources/certificates.js'

export type Authority = Awaited<ReturnType<typeof issue>>

const YEAR = 365 * 86_400_000

/** An authority that may sign others. */
export function authority(subject: string): Promise<Authority> {
  return issue({
    subject: `CN=${subject}`,
    extensions: [new BasicConstraintsExtension(true, undefined, true)],
    notBefore: new Date(Date.now() - YEAR),
    notAfter: new Date(Date.now() + YEAR)
  })
}

/** A certificate for `names`, signed by `issuer`, or a client's with no names. */
export function certificate(
  subject: string,
  issuer: Authority,
  names: readonly string[] = [],
  life = YEAR
): Promise<Authority> {
  const san = names.map((value) => ({ type: 'dns' as const, value }))
  return issue({
    subject: `CN=${subject}`,
    issuer,
    serialNumber: Math.floor(Math.random() * 1e9)
      .toString(16)
      .padStart(10, '0'),
    extensions: names.length === 0 ? [] : [new SubjectAlternativeNameExtension(san)],
    notBefore: new Date(Date.now() - YEAR),
    notAfter: new Date(Date.now() + life)
  })
}

export interface Asked extends ConnectionOptions {
  readonly host?: string
  readonly path?: string
}

/** One request over HTTP/1.1 and TLS on a connection of its own; the name in TLS is that of `servername`, else the host's. */
export function askTls(
  port: number,
  host: string,
  { path = '/', servername = host, ...options }: Asked = {}
): Promise<{ status: number; body: string; code: string | undefined; certificate: string; hsts: string | undefined }> {
  return new Promise((resolve, reject) => {
    const sent = request(
      {
        ...options,
        host: '127.0.0.1',
        port,
        path,
        servername,
        headers: { host },
        agent: false,
        rejectUnauthorized: options.ca !== undefined
      },
      (response) => {
        const socket = response.socket as TLSSocket
        const shown = socket.getPeerX509Certificate()?.subject ?? ''
        let body = ''
        response.setEncoding('utf8')
        response.on('data', (chunk: string) => {
          body += chunk
        })
        response.on('error', reject)
        response.on('end', () => {
          const code = response.headers['sluice-error-code'] as string | undefined
          resolve({
            status: response.statusCode ?? 0,
            body,
            code,
            certificate: shown,
            hsts: response.headers['strict-transport-security']
          })
        })
      }
    )
    sent.on('error', reject)
    sent.end()
  })
}

/** The subject of the certificate that a name gets, or why there was none. */
export async function shownTo(port: number, options: ConnectionOptions): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false, ...options })
  try {
    await once(socket, 'secureConnect')
    return socket.getPeerX509Certificate()?.subject ?? ''
  } finally {
    socket.destroy()
  }
}

/** An HTTP/2 session on which requests for any host can be made. */
export function session(port: number, servername: string, options: ConnectionOptions = {}) {
  const client = connectH2(`https://127.0.0.1:${port}`, { servername, rejectUnauthorized: false, ...options })
  const ask = async (host: string, path = '/'): Promise<{ status: number; body: string; code: string | undefined }> => {
    const stream = client.request({ ':authority': host, ':path': path })
    let body = ''
    let head: Record<string, unknown> = {}
    stream.setEncoding('utf8')
    stream.on('response', (headers) => {
      head = headers
    })
    stream.on('data', (chunk: string) => {
      body += chunk
    })
    await once(stream, 'end')
    return { status: Number(head[':status']), body, code: head['sluice-error-code'] as string | undefined }
  }
  return { ask, close: () => client.close(), destroy: () => client.destroy() }
}
