import { request } from 'node:http'
import type { Test } from 'tap'
import { create, site, visit } from '../helpers/account.js'
import { startWords } from '../helpers/grpc.js'
import { type Engine, startSluice } from '../helpers/sluice.js'
import { onEngines } from '../wire/engines.js'

const HOST = 'grpc.example.com'
const DENY = 'on_http_request: [{ expressions: ["\'x-bad\' in req.headers"], actions: [{ type: deny }] }]'

async function serving(t: Test, engine: Engine) {
  const { port } = await startWords(t)
  const sluice = await startSluice(t, { engine })
  const { id } = await create(sluice, '/backends/static', { address: `127.0.0.1:${port}`, http2: true })
  await site(sluice, HOST, { backend: { backend_id: id }, grpc_web: {}, traffic_policy: { value: DENY } })
  return sluice
}

const framed = (text: string) => {
  const content = Buffer.from(text)
  const head = Buffer.alloc(5)
  head.writeUInt32BE(content.length, 1)
  return Buffer.concat([head, content])
}

interface Answer {
  readonly status: number
  readonly type: string | undefined
  readonly grpcStatus: string | undefined
  readonly messages: readonly string[]
  readonly trailers: Readonly<Record<string, string>>
}

interface Called {
  readonly method?: string
  readonly type?: string
  /** Pieces of the body, each sent alone. */
  readonly pieces?: readonly (Buffer | string)[]
  readonly headers?: Readonly<Record<string, string>>
}

function call(
  port: number,
  { method = 'One', type = 'application/grpc-web+proto', pieces = [], headers = {} }: Called
) {
  return new Promise<Answer>((resolve, reject) => {
    const fields = { host: HOST, 'content-type': type, 'x-grpc-web': '1', ...headers }
    const sending = request(
      { port, host: '127.0.0.1', method: 'POST', path: `/test.Words/${method}`, headers: fields, agent: false },
      async (response) => {
        const chunks: Buffer[] = []
        try {
          for await (const chunk of response) chunks.push(chunk as Buffer)
        } catch (error) {
          reject(error)
        }
        const { 'content-type': answered, 'grpc-status': grpcStatus } = response.headers
        const bytes = Buffer.concat(chunks)
        const body = answered?.includes('-text') === true ? decoded(bytes.toString()) : bytes
        resolve({ status: response.statusCode ?? 0, type: answered, grpcStatus: grpcStatus as string, ...frames(body) })
      }
    )
    sending.on('error', reject)
    for (const piece of pieces) sending.write(piece)
    sending.end()
  })
}

/** Each group of four characters on its own, as padding may stand anywhere. */
const decoded = (text: string) => Buffer.concat((text.match(/.{4}/g) ?? []).map((four) => Buffer.from(four, 'base64')))

function frames(body: Buffer): Pick<Answer, 'messages' | 'trailers'> {
  const messages: string[] = []
  const trailers: Record<string, string> = {}
  for (let at = 0; at < body.length; ) {
    const length = body.readUInt32BE(at + 1)
    const content = body.subarray(at + 5, at + 5 + length).toString()
    if (body[at] === 0x80) {
      for (const line of content.split('\r\n').filter(Boolean)) {
        const colon = line.indexOf(': ')
        trailers[line.slice(0, colon)] = line.slice(colon + 2)
      }
    } else messages.push(content)
    at += 5 + length
  }
  return { messages, trailers }
}

onEngines('a page calls a server of gRPC, in bytes and in base64', async (t, engine) => {
  const { port } = await serving(t, engine)
  t.same(await call(port, { pieces: [framed('hello')] }), {
    status: 200,
    type: 'application/grpc-web+proto',
    grpcStatus: undefined,
    messages: ['HELLO'],
    trailers: { 'grpc-status': '0', 'grpc-message': 'OK', 'x-trailer': 'last', 'x-bin-bin': 'AP8=' }
  })
  const text = framed('hello').toString('base64')
  for (const pieces of [[text], [text.slice(0, 3), text.slice(3)], [...text]]) {
    const answer = await call(port, { type: 'application/grpc-web-text', pieces })
    t.match(answer, {
      status: 200,
      type: 'application/grpc-web-text',
      messages: ['HELLO'],
      trailers: { 'grpc-status': '0' }
    })
  }
  const padded = [framed('a').subarray(0, 1), framed('a').subarray(1)].map((piece) => piece.toString('base64'))
  t.match(
    await call(port, { type: 'application/grpc-web-text', pieces: padded }),
    { messages: ['A'] },
    'padding within'
  )
  t.match(
    await call(port, { method: 'Down', pieces: [framed('abc')] }),
    { messages: ['a', 'b', 'c'] },
    'a stream of answers'
  )
})

onEngines('failures of a call, refusals, and what is no call', async (t, engine) => {
  const sluice = await serving(t, engine)
  const { port } = sluice
  const failed = await call(port, { pieces: [framed('fail')] })
  t.equal(failed.grpcStatus ?? failed.trailers['grpc-status'], '9')
  t.match(await call(port, { pieces: [framed('x')], headers: { 'x-bad': '1' } }), { status: 403, messages: [] })
  t.match(await visit(sluice, HOST, { path: '/test.Words/One', method: 'POST', body: '{}' }), {
    status: 415,
    headers: { 'sluice-error-code': 'GRPC_WEB_REQUIRED' }
  })
  const broken = call(port, { type: 'application/grpc-web-text', pieces: ['AAAA', '!!!!'] })
  t.not((await broken.catch(() => ({ status: 0 }))).status, 200, 'what is no base64 reaches no method')
})
