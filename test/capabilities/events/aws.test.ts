import t from 'tap'
import { parseArn } from '../../../src/capabilities/events/destinations/aws.js'
import { unsupported, wayTo } from '../../../src/capabilities/events/destinations/registry.js'
import type { Sender } from '../../../src/capabilities/events/destinations/sender.js'
import { ManualClock } from '../../helpers/clock.js'
import { destination, NO_OUTPUT, through } from './cloud.js'
import { type Received, receiver } from './receiver.js'
import { refusalOf } from './sigv4.js'

const KEY = { id: 'AKIDEXAMPLE', secret: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY' }
const REGION = 'eu-west-1'
const STREAM = `arn:aws:kinesis:${REGION}:123456789012:stream/events`
const DELIVERY = `arn:aws:firehose:${REGION}:123456789012:deliverystream/events`
const GROUP = `arn:aws:logs:${REGION}:123456789012:log-group:/sluice/events:*`
const NOW = Date.UTC(2026, 0, 2, 3, 4, 5)
const HOUR = 3_600_000
const { signal } = new AbortController()

type Body = Record<string, unknown>
interface Answered {
  readonly status?: number
  readonly body: Body
}

const event = (n: number, at = NOW) =>
  JSON.stringify({ event_id: `ev_${n}`, event_timestamp: new Date(at).toISOString(), object: { n } })
const events = (count: number) => Array.from({ length: count }, (_, n) => event(n))
const list = (...texts: string[]) => ({ id: 'evb_1', events: texts, list: true })
const audit = (...texts: string[]) => ({ id: 'ev_1', events: texts, list: false })

/** A service that takes nothing without a good signature; `answer` says what it does with each call. */
async function service(
  t: Parameters<typeof receiver>[0],
  name: string,
  answer: (operation: string, body: Body, count: number) => Answered
) {
  const calls: { readonly operation: string; readonly body: Body }[] = []
  const hook = await receiver(t, (request: Received, response) => {
    const why = refusalOf({ ...request, path: '/' }, { ...KEY, region: REGION, service: name })
    const operation = request.headers['x-amz-target'] ?? ''
    const body = JSON.parse(request.body) as Body
    calls.push({ operation, body })
    const refused = { status: 400, body: { __type: `com.amazon#InvalidSignatureException`, message: why } }
    const { status = 200, body: said } = why === undefined ? answer(operation, body, calls.length) : refused
    response.writeHead(status, { 'content-type': 'application/x-amz-json-1.1' }).end(JSON.stringify(said))
  })
  const asked: string[] = []
  const open = (target: Body, secret = KEY.secret): Sender => {
    const [kind = ''] = Object.keys(target)
    const secrets = { [`target.${kind}.auth.creds.aws_secret_access_key`]: secret }
    const parts = { outbound: through(hook.url, asked), clock: new ManualClock(NOW), stdout: NO_OUTPUT }
    const way = wayTo(destination(target, secrets), parts)
    if (!('sender' in way)) throw new Error(way.unsupported)
    return way.sender
  }
  return { calls, asked, open, hook }
}

const auth = { name: 'creds', value: { aws_access_key_id: KEY.id } }
const recordsOf = (call: { readonly body: Body } | undefined) => (call?.body.Records ?? []) as Body[]
const dataOf = (record: unknown) => Buffer.from(String((record as Body).Data), 'base64').toString()

t.test('Kinesis: traffic in batches; what was refused is sent again, and nothing else', async (t) => {
  const { calls, asked, open } = await service(t, 'kinesis', (_operation, { Records }, count) => {
    const results = (Records as Body[]).map((_record, place) =>
      count === 1 && (place === 1 || place === 3)
        ? { ErrorCode: 'ProvisionedThroughputExceededException', ErrorMessage: 'slow' }
        : { SequenceNumber: '1', ShardId: 's' }
    )
    return { body: { FailedRecordCount: count === 1 ? 2 : 0, Records: results } }
  })
  const kinesis = open({ kinesis: { auth, stream_arn: STREAM } })
  const parcel = list(...events(5))
  t.same(await kinesis.send(parcel, signal), {
    message: 'the service refused 2 of 5 records (ProvisionedThroughputExceededException)'
  })
  t.equal(await kinesis.send(parcel, signal), undefined)
  t.same(asked, Array(2).fill(`https://kinesis.${REGION}.amazonaws.com/`))
  t.same(
    calls.map(({ operation, body }) => [operation, body.StreamARN, (body.Records as Body[]).map(dataOf)]),
    [
      ['Kinesis_20131202.PutRecords', STREAM, events(5)],
      ['Kinesis_20131202.PutRecords', STREAM, [event(1), event(3)]]
    ]
  )
  const keys = recordsOf(calls[0]).map(({ PartitionKey }) => PartitionKey)
  t.equal(new Set(keys).size, 5, 'spread over the shards')
  t.equal(await kinesis.send(list(...events(1_200)), signal), undefined)
  t.same(
    calls.slice(2).map(({ body }) => (body.Records as Body[]).length),
    [500, 500, 200]
  )
})

t.test('Kinesis: audit events keep their order', async (t) => {
  const { calls, open } = await service(t, 'kinesis', (_operation, _body, count) =>
    count === 2
      ? { status: 400, body: { __type: 'InvalidArgumentException' } }
      : { body: { ShardId: 's', SequenceNumber: `n${count}` } }
  )
  const kinesis = open({ kinesis: { auth, stream_arn: STREAM } })
  t.equal(kinesis.most, 1)
  t.equal(await kinesis.send(audit(event(1)), signal), undefined)
  t.same(await kinesis.send(audit(event(2)), signal), {
    message: 'the receiver answered 400 (InvalidArgumentException)',
    retryAfter: undefined,
    fault: 'event'
  })
  for (const n of [2, 3]) t.equal(await kinesis.send(audit(event(n)), signal), undefined)
  t.same(
    calls.map(({ body }) => [dataOf(body), body.SequenceNumberForOrdering]),
    [
      [event(1), undefined],
      [event(2), 'n1'],
      [event(2), undefined],
      [event(3), 'n3']
    ],
    'a number that is refused is forgotten'
  )
  t.equal(new Set(calls.map(({ operation, body }) => `${operation} ${String(body.PartitionKey)}`)).size, 1)
})

t.test('Firehose: a line for each event, within the limits of a request', async (t) => {
  const { calls, asked, open } = await service(t, 'firehose', (_operation, { Records }) => ({
    body: { FailedPutCount: 0, RequestResponses: (Records as Body[]).map(() => ({ RecordId: 'r' })) }
  }))
  const firehose = open({ firehose: { auth, delivery_stream_arn: DELIVERY } })
  t.equal(await firehose.send(audit(event(1), event(2)), signal), undefined)
  t.same(asked, [`https://firehose.${REGION}.amazonaws.com/`])
  t.match(calls, [{ operation: 'Firehose_20150804.PutRecordBatch', body: { DeliveryStreamName: 'events' } }])
  t.same(recordsOf(calls[0]).map(dataOf).join(''), `${event(1)}\n${event(2)}\n`)
  const large = Array.from({ length: 10 }, (_, n) => JSON.stringify({ event_id: `ev_${n}`, text: 'x'.repeat(900_000) }))
  t.equal(await firehose.send(list(...large), signal), undefined)
  t.same(
    calls.slice(1).map(({ body }) => (body.Records as Body[]).length),
    [3, 3, 3, 1]
  )
  for (const { body } of calls) t.ok(JSON.stringify(body).length < 4_000_000)
})

t.test('an answer that does not say what became of each record is not believed', async (t) => {
  const { open } = await service(t, 'firehose', () => ({ body: { FailedPutCount: 0 } }))
  const firehose = open({ firehose: { auth, delivery_stream_arn: DELIVERY } })
  t.match(await firehose.send(audit(event(1)), signal), { message: /did not say/ })
})

t.test('CloudWatch Logs: the log stream is made when it is missing, and times never fall', async (t) => {
  let there = false
  const { calls, asked, open } = await service(t, 'logs', (operation) => {
    if (operation === 'Logs_20140328.CreateLogStream') {
      there = true
      return { status: 400, body: { __type: 'ResourceAlreadyExistsException' } }
    }
    return there ? { body: {} } : { status: 400, body: { __type: 'ResourceNotFoundException' } }
  })
  const logs = open({ cloudwatch_logs: { auth, log_group_arn: GROUP } })
  const times = [NOW - 400 * HOUR, NOW - HOUR, NOW - 2 * HOUR, NOW + 5 * HOUR]
  const texts = times.map((at, n) => event(n, at))
  t.equal(await logs.send(audit(...texts), signal), undefined)
  t.same(asked, Array(3).fill(`https://logs.${REGION}.amazonaws.com/`))
  t.same(
    calls.map(({ operation }) => operation.replace('Logs_20140328.', '')),
    ['PutLogEvents', 'CreateLogStream', 'PutLogEvents']
  )
  t.match(calls[2]?.body, { logGroupName: '/sluice/events', logStreamName: 'sluice' })
  t.same(calls[2]?.body.logEvents, [
    { timestamp: NOW - 12 * HOUR, message: texts[0] },
    { timestamp: NOW - HOUR, message: texts[1] },
    { timestamp: NOW - HOUR, message: texts[2] },
    { timestamp: NOW, message: texts[3] }
  ])
})

t.test('CloudWatch Logs: a group that is missing, and events whose time is refused', async (t) => {
  let missing = true
  const { calls, open } = await service(t, 'logs', (_operation, _body, count) => {
    if (missing) return { status: 400, body: { __type: 'ResourceNotFoundException' } }
    return {
      body: count === 3 ? { rejectedLogEventsInfo: { tooOldLogEventEndIndex: 1, tooNewLogEventStartIndex: 3 } } : {}
    }
  })
  const logs = open({ cloudwatch_logs: { auth, log_group_arn: GROUP } })
  const parcel = audit(...events(4))
  t.match(await logs.send(parcel, signal), { message: 'the receiver answered 400 (ResourceNotFoundException)' })
  missing = false
  t.match(await logs.send(parcel, signal), { message: 'the service refused the time of 2 of 4 events' })
  t.equal(await logs.send(parcel, signal), undefined)
  const sent = (calls[3]?.body.logEvents as Body[] | undefined)?.map(({ message }) => message)
  t.same(sent, [event(0), event(3)])
})

t.test('a wrong key is told, and nothing of it', async (t) => {
  const { open } = await service(t, 'kinesis', () => ({ body: {} }))
  const failure = await open({ kinesis: { auth, stream_arn: STREAM } }, 'wrong-key').send(audit(event(1)), signal)
  t.same(failure, { message: 'the receiver answered 400 (InvalidSignatureException)', retryAfter: undefined })
})

t.test('what no ARN leads to, and roles, are said to be unsupported', async (t) => {
  const why = (target: Body) => unsupported(destination(target, {}).body)
  const role = { name: 'role', value: { role_arn: 'arn:aws:iam::123456789012:role/x' } }
  t.match(why({ kinesis: { auth: role, stream_arn: STREAM } }), /assumes no roles/)
  for (const arn of [
    DELIVERY,
    'arn:aws:kinesis::1:stream/x',
    'arn:aws:kinesis:eu.evil.test/:1:stream/x',
    `${STREAM}/x`
  ])
    t.match(why({ kinesis: { auth, stream_arn: arn } }), /names nothing of kinesis/, arn)
  t.equal(why({ kinesis: { auth, stream_arn: STREAM } }), undefined)
  t.equal(parseArn('arn:aws-elsewhere:kinesis:eu-west-1:1:stream/x'), undefined)
  t.match(parseArn('arn:aws-cn:logs:cn-north-1:1:log-group:a'), { partition: 'aws-cn', resource: 'log-group:a' })
})
