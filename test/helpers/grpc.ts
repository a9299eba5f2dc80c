import {
  type Client,
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
import type { Test } from 'tap'
import { until } from './until.js'

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
export interface Seen {
  cancelled: number
}

/** A server of gRPC on a free port of this machine. */
export async function startWords(t: Test): Promise<{ readonly port: number; readonly seen: Seen }> {
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
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) =>
      error === null ? resolve(port) : reject(error)
    )
  })
  t.teardown(() => server.forceShutdown())
  return { port, seen }
}

type Unary = {
  error: ServiceError | null
  value: string | undefined
  first: Metadata | undefined
  last: Metadata | undefined
}

/** A unary call; `how`: another method than One. */
export function ask(
  client: Client,
  word: string,
  how: typeof METHODS.one = METHODS.one,
  deadline = 10_000
): Promise<Unary> {
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
export async function callAll(t: Test, client: Client): Promise<void> {
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

/** Makes a call that ends by its deadline and one that is cancelled; the server notices both. */
export async function cutShort(t: Test, client: Client, seen: Seen): Promise<void> {
  const before = seen.cancelled
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
  await until(() => seen.cancelled === before + 2)
}
