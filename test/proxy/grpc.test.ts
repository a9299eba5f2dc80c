import 'reflect-metadata'
import { once } from 'node:events'
import { connect } from 'node:http2'
import {
  Client,
  credentials,
  type handleBidiStreamingCall,
  type handleClientStreamingCall,
  type handleServerStreamingCall,
  type handleUnaryCall,
  Metadata,
  type MethodDefinition,
  Server,
  ServerCredentials,
  type ServiceError,
  status
} from '@grpc/grpc-js'
import t, { type Test } from 'tap'
import { create, site } from '../helpers/account.js'
import { engines, startSluice } from '../helpers/sluice.js'
import { freePort } from './free-port.js'
import { authority, certificate } from './tls-client.js'

const HOST = 'grpc.example.com'

function method(name: string, requestStream: boolean, responseStream: boolean): MethodDefinition<string, string> {
  return {
    path: `/test.Words/${name}`,
    requestStream,
    responseStream,
    requestSerialize: (value) => Buffer.from(value),
    requestDeserialize: (bytes) => bytes.toString(),
    responseSerialize: (value) => Buffer.from(value),
    responseDeserialize: (bytes) => bytes.toString()
  }
}

const METHODS = {
  one: method('One', false, false),
  up: method('Up', true, false),
  down: method('Down', false, true),
  both: method('Both', true, true),
  never: method('Never', false, false)
}

/** What the server saw of calls that were given up. */
interface Seen {
  cancelled: number
}

/** A server of gRPC behind an HTTPS edge, and clients of the edge: over TLS, and in clear text. */
async function started(
  t: Test,
  policy: object = {},
  options: Readonly<Record<string, string>> = {}
): Promise<{ client: Client; plain: Client; seen: Seen; port: number; plainPort: number }> {
  const seen: Seen = { cancelled: 0 }
  const server = new Server()
  const one: handleUnaryCall<string, string> = (call, done) => {
    if (call.request === 'fail') {
      const metadata = new Metadata()
      metadata.set('x-why', 'because')
      done({ code: status.FAILED_PRECONDITION, details: 'not ready: 100% sure', metadata })
      return
    }
    const trailers = new Metadata()
    trailers.set('x-trailer', 'last')
    trailers.set('x-bin-bin', Buffer.from([0, 255]))
    const first = new Metadata()
    first.set('x-echo', call.metadata.get('x-ask')[0] ?? '')
    call.sendMetadata(first)
    done(null, call.request.toUpperCase(), trailers)
  }
  const up: handleClientStreamingCall<string, string> = (call, done) => {
    const words: string[] = []
    call.on('data', (word: string) => words.push(word))
    call.on('end', () => done(null, words.join('+')))
  }
  const down: handleServerStreamingCall<string, string> = (call) => {
    for (const letter of call.request) call.write(letter)
    call.end()
  }
  const both: handleBidiStreamingCall<string, string> = (call) => {
    call.on('data', (word: string) => call.write(`${word}!`))
    call.on('end', () => call.end())
    call.on('cancelled', () => seen.cancelled++)
  }
  const never: handleUnaryCall<string, string> = (call) => {
    call.on('cancelled', () => seen.cancelled++)
  }
  server.addService(METHODS, { one, up, down, both, never })
  const upstream = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) =>
      error === null ? resolve(port) : reject(error)
    )
  })
  t.teardown(() => server.forceShutdown())
  const port = await freePort()
  const sluice = await startSluice(t, { options: { LISTENERS: `https://127.0.0.1:${port}`, ...options } })
  const ca = await authority('Test CA')
  const { pem, key } = await certificate('G', ca, [HOST])
  await create(sluice, '/tls_certificates', { certificate_pem: pem, private_key_pem: key })
  const { id } = await create(sluice, '/backends/static', { address: `127.0.0.1:${upstream}`, http2: true })
  await site(sluice, HOST, { backend: { backend_id: id }, ...policy })
  const client = new Client(`127.0.0.1:${port}`, credentials.createSsl(Buffer.from(ca.pem)), {
    'grpc.ssl_target_name_override': HOST,
    'grpc.default_authority': HOST,
    'grpc.enable_retries': 0
  })
  t.teardown(() => client.close())
  const plain = new Client(`127.0.0.1:${sluice.port}`, credentials.createInsecure(), {
    'grpc.default_authority': HOST,
    'grpc.enable_retries': 0
  })
  t.teardown(() => plain.close())
  return { client, plain, seen, port, plainPort: sluice.port }
}

type Unary = {
  error: ServiceError | null
  value: string | undefined
  first: Metadata | undefined
  last: Metadata | undefined
}

function ask(client: Client, word: string, how: typeof METHODS.one = METHODS.one, deadline = 10_000): Promise<Unary> {
  return new Promise((resolve) => {
    const metadata = new Metadata()
    metadata.set('x-ask', 'asked')
    const result: Unary = { error: null, value: undefined, first: undefined, last: undefined }
    const call = client.makeUnaryRequest(
      how.path,
      how.requestSerialize,
      how.responseDeserialize,
      word,
      metadata,
      { deadline: Date.now() + deadline },
      (error, value) => {
        result.error = error
        result.value = value
      }
    )
    call.on('metadata', (first) => {
      result.first = first
    })
    call.on('status', (end) => {
      result.last = end.metadata
      setImmediate(() => resolve(result))
    })
  })
}

/** Makes a call of each kind. */
async function callAll(t: Test, client: Client): Promise<void> {
  const { one, up, down, both } = METHODS
  const answer = await ask(client, 'hello')
  t.equal(answer.error, null)
  t.equal(answer.value, 'HELLO')
  t.same(answer.first?.get('x-echo'), ['asked'])
  t.same(answer.last?.get('x-trailer'), ['last'])
  t.same(answer.last?.get('x-bin-bin'), [Buffer.from([0, 255])])
  const failed = await ask(client, 'fail', one)
  t.match(failed.error, { code: status.FAILED_PRECONDITION, details: 'not ready: 100% sure' })
  t.same(failed.last?.get('x-why'), ['because'])

  const summed = await new Promise((resolve, reject) => {
    const call = client.makeClientStreamRequest(up.path, up.requestSerialize, up.responseDeserialize, (error, value) =>
      error === null ? resolve(value) : reject(error)
    )
    for (const word of ['a', 'b', 'c']) call.write(word)
    call.end()
  })
  t.equal(summed, 'a+b+c')

  const letters: string[] = []
  for await (const letter of client.makeServerStreamRequest(
    down.path,
    down.requestSerialize,
    down.responseDeserialize,
    'xyz'
  ))
    letters.push(letter)
  t.same(letters, ['x', 'y', 'z'])

  const call = client.makeBidiStreamRequest(both.path, both.requestSerialize, both.responseDeserialize)
  const heard: string[] = []
  call.write('1')
  for await (const word of call) {
    heard.push(word)
    if (heard.length < 3) call.write(String(heard.length + 1))
    else call.end()
  }
  t.same(heard, ['1!', '2!', '3!'])
}

t.test('all four kinds of call pass an edge, with metadata and status', async (t) => {
  const { client } = await started(t)
  await callAll(t, client)
})

for (const engine of engines) {
  t.test(`${engine}: and a listener without TLS, by prior knowledge`, async (t) => {
    const { plain } = await started(t, {}, { ENGINE: engine })
    await callAll(t, plain)
  })

  t.test(`${engine}: without TLS what edges_on_http says holds`, async (t) => {
    const refusing = await started(t, {}, { ENGINE: engine, EDGES_ON_HTTP: 'refuse' })
    t.match((await ask(refusing.plain, 'x')).error, { code: status.PERMISSION_DENIED, details: 'HTTPS_REQUIRED' })
    t.equal((await ask(refusing.client, 'x')).value, 'X', 'TLS goes on')
    const leading = await started(t, {}, { ENGINE: engine, EDGES_ON_HTTP: 'redirect' })
    const session = connect(`http://127.0.0.1:${leading.plainPort}`)
    t.teardown(() => session.destroy())
    const moved = session.request({ ':authority': HOST, ':path': '/a?b=c' })
    const [fields] = await once(moved, 'response')
    t.match(fields, { ':status': 308, location: `https://${HOST}:${leading.port}/a?b=c` })
  })
}

t.test('deadlines and cancellation reach the server', async (t) => {
  const { client, seen } = await started(t)
  t.match((await ask(client, 'x', METHODS.never, 300)).error, { code: status.DEADLINE_EXCEEDED })
  const { both } = METHODS
  const call = client.makeBidiStreamRequest(both.path, both.requestSerialize, both.responseDeserialize)
  const ended = new Promise((resolve) => {
    call.on('error', resolve)
  })
  call.write('1')
  await new Promise((resolve) => {
    call.once('data', resolve)
  })
  call.cancel()
  t.match(await ended, { code: status.CANCELLED })
  while (seen.cancelled < 2) await new Promise(setImmediate)
})

t.test('a refusal of ours is a status of gRPC', async (t) => {
  for (const [code, expected] of [
    [401, status.UNAUTHENTICATED],
    [403, status.PERMISSION_DENIED],
    [429, status.RESOURCE_EXHAUSTED],
    [503, status.UNAVAILABLE],
    [418, status.UNKNOWN]
  ] as const) {
    const deny = { on_http_request: [{ actions: [{ type: 'deny', config: { status_code: code } }] }] }
    const { client } = await started(t, { traffic_policy: { value: JSON.stringify(deny) } })
    t.equal((await ask(client, 'x')).error?.code, expected, String(code))
  }
})
