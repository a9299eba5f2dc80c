import 'reflect-metadata'
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData, status } from '@grpc/grpc-js'
import t, { type Test } from 'tap'
import { healthOf, healthRequest } from '../../src/proxy/grpc-health.js'
import { account, create } from '../helpers/account.js'
import { startSluice } from '../helpers/sluice.js'
import { until } from '../helpers/until.js'
import { onEngines } from '../wire/engines.js'

type Answer = Parameters<typeof healthOf>[0]

const CHECK = {
  path: '/grpc.health.v1.Health/Check',
  requestStream: false,
  responseStream: false,
  requestSerialize: (bytes: Buffer) => bytes,
  requestDeserialize: (bytes: Buffer) => bytes,
  responseSerialize: (bytes: Buffer) => bytes,
  responseDeserialize: (bytes: Buffer) => bytes
}

/** A server of gRPC whose health a test sets. */
interface Patient {
  readonly port: number
  readonly asked: Buffer[]
  readonly agents: Set<string>
  /** Message, code of gRPC, or no answer. */
  answer: Buffer | number | 'none'
}

async function patient(t: Test, offers = true): Promise<Patient> {
  const server = new Server()
  const one = {
    port: 0,
    asked: [] as Buffer[],
    agents: new Set<string>(),
    answer: Buffer.from([8, 1]) as Patient['answer']
  }
  const check = (call: ServerUnaryCall<Buffer, Buffer>, done: sendUnaryData<Buffer>) => {
    one.asked.push(call.request)
    one.agents.add(String(call.metadata.get('user-agent')[0]))
    const { answer } = one
    if (typeof answer === 'number') done({ code: answer, details: 'no' })
    else if (answer !== 'none') done(null, answer)
  }
  if (offers) server.addService({ check: CHECK }, { check })
  one.port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) =>
      error === null ? resolve(port) : reject(error)
    )
  })
  t.teardown(() => server.forceShutdown())
  return one
}

const HEALTH = { type: 'grpc', interval: 0.1, timeout: 0.3, rise: 1, fall: 1 }

onEngines('the health protocol of gRPC takes a server out of traffic and brings it back', async (t, engine) => {
  const sluice = await startSluice(t, { engine })
  const one = await patient(t)
  const health = { ...HEALTH, service: 'shop.v1.Orders' }
  const { id } = await create(sluice, '/backends/static', { address: `127.0.0.1:${one.port}`, http2: true, health })
  const state = async () => (await account(sluice)(`/backends/static/${id}`)).json.state
  const becomes = (status: string, reason: string) =>
    until(async () => {
      const seen = await state()
      return seen.status === status && seen.reason === reason
    })
  await becomes('up', 'SERVING')
  t.equal(one.asked[0]?.toString(), '\n\x0eshop.v1.Orders')
  t.match([...one.agents][0], /^Sluice-Health-Check/)
  for (const [answer, reason] of [
    [Buffer.from([8, 2]), 'NOT SERVING'],
    [Buffer.from([8, 3]), 'SERVICE UNKNOWN'],
    [Buffer.alloc(0), 'UNKNOWN'],
    [status.NOT_FOUND, 'it does not know the service (NOT_FOUND)'],
    [status.UNAVAILABLE, 'grpc-status 14'],
    [Buffer.from([0xff]), 'its answer is no HealthCheckResponse'],
    [Buffer.alloc(2000, 8), 'its answer is too long for a health check'],
    ['none', 'no answer within 300 ms']
  ] as const) {
    one.answer = answer
    await becomes('down', reason)
    one.answer = Buffer.from([8, 1])
    await becomes('up', 'SERVING')
  }
  t.equal((await account(sluice)(`/backends/static/${id}`)).json.health.service, 'shop.v1.Orders')
})

t.test('a server that does not offer it is down, with the reason', async (t) => {
  const sluice = await startSluice(t)
  const one = await patient(t, false)
  const body = { address: `127.0.0.1:${one.port}`, http2: true, health: HEALTH }
  const { id } = await create(sluice, '/backends/static', body)
  await until(async () => {
    const { status, reason } = (await account(sluice)(`/backends/static/${id}`)).json.state
    return status === 'down' && /does not offer grpc.health.v1.Health \(UNIMPLEMENTED\)/.test(reason)
  })
})

t.test('what does not go with it is refused', async (t) => {
  const sluice = await startSluice(t)
  const call = account(sluice)
  for (const [fields, field] of [
    [{ health: HEALTH }, 'health'],
    [{ http2: true, health: { ...HEALTH, path: '/x' } }, 'path'],
    [{ http2: true, health: { ...HEALTH, statuses: ['200'] } }, 'statuses'],
    [{ http2: true, health: { ...HEALTH, service: 'a b' } }, 'service'],
    [{ http2: true, health: { type: 'tcp', service: 'a' } }, 'service']
  ] as const) {
    const answer = await call('/backends/static', { method: 'POST', body: { address: 'a.test:1', ...fields } })
    t.equal(answer.status, 400, JSON.stringify(fields))
    t.match(answer.text, new RegExp(field))
  }
  const { id } = await create(sluice, '/backends/static', { address: 'a.test:1', http2: true, health: HEALTH })
  const off = await call(`/backends/static/${id}`, { method: 'PATCH', body: { http2: false } })
  t.match(off, { status: 400, text: /type grpc needs http2/ }, 'nor later')
})

t.test('the messages, byte by byte', async (t) => {
  t.same(Buffer.from(healthRequest('')), Buffer.alloc(5))
  t.same(Buffer.from(healthRequest('a')), Buffer.from([0, 0, 0, 0, 3, 10, 1, 97]))
  const long = Buffer.from(healthRequest('x'.repeat(200)))
  t.same([...long.subarray(0, 8)], [0, 0, 0, 0, 203, 10, 0xc8, 1])
  const judge = async (content: number[], trailers = ['grpc-status', '0'], length = content.length) => {
    const head = Buffer.alloc(5)
    head.writeUInt32BE(length, 1)
    const body = { buffer: async () => Buffer.concat([head, Buffer.from(content)]), trailers, discard: () => undefined }
    return (await healthOf({ head: { status: 200, headers: [] }, body } as unknown as Answer)).reason
  }
  t.equal(await judge([8, 1]), 'SERVING')
  t.equal(await judge([8, 2, 8, 1]), 'SERVING', 'the last one counts')
  t.equal(
    await judge([0x12, 2, 65, 66, 0x19, 1, 2, 3, 4, 5, 6, 7, 8, 0x25, 1, 2, 3, 4, 0x28, 5, 8, 1]),
    'SERVING',
    'others are left out'
  )
  t.equal(await judge([8, 0x81, 0x80, 0]), 'SERVING', 'a number may be longer than it needs to be')
  t.equal(await judge([8, 9]), 'status 9 of gRPC health')
  for (const broken of [[8], [8, 0x80], [0x12, 5, 1], [0x19, 1], [0x25, 1], [0x0b], [8, ...Array(11).fill(0x80)]])
    t.equal(await judge(broken), 'its answer is no HealthCheckResponse', String(broken))
  t.equal(await judge([8, 1], undefined, 3), 'its answer is no HealthCheckResponse', 'a length that is not true')
  t.equal(await judge([8, 1], []), 'it does not answer as gRPC does (no grpc-status)')
})
