import { AwsV4Signer } from 'aws4fetch'
import type { Clock } from '../../../lib/clock.js'
import type { OutboundError, OutboundResponse } from '../../../lib/http-client/answer.js'
import type { Outbound } from '../../../lib/http-client/outbound.js'
import type { Chosen } from '../../../schema/objects.js'
import { failureOf, jsonOf, wordOf } from './payload.js'
import { type Kind, type Sender, type SenderParts, type SendFailure, textOf } from './sender.js'

/** Parts of an Amazon Resource Name, as far as they lead to its service. */
interface Arn {
  readonly partition: string
  readonly service: string
  readonly region: string
  /** Everything behind the account. */
  readonly resource: string
}

/** The domain of the services, by partition. */
const DOMAINS: Readonly<Record<string, string>> = {
  aws: 'amazonaws.com',
  'aws-cn': 'amazonaws.com.cn',
  'aws-us-gov': 'amazonaws.com'
}
// The region becomes a part of a host name.
const ARN = /^arn:([a-z-]+):([a-z]+):([a-z0-9-]{1,32}):\d*:(.+)$/

/** Parses an ARN; undefined if invalid, or if the endpoints of its partition are unknown. */
export function parseArn(text: string): Arn | undefined {
  const [, partition = '', service = '', region = '', resource = ''] = ARN.exec(text) ?? []
  return DOMAINS[partition] === undefined ? undefined : { partition, service, region, resource }
}

/** The base URL of the service that an ARN belongs to. */
function endpointOf({ partition, service, region }: Arn): string {
  return `https://${service}.${region}.${DOMAINS[partition]}/`
}

interface AwsKey {
  readonly id: string
  readonly secret: string
}

interface AwsServiceParts {
  readonly arn: Arn
  readonly key: AwsKey
  readonly outbound: Outbound
  readonly clock: Clock
}

/** Result of a call. */
export type AwsAnswer =
  | { readonly ok: true; readonly data: Readonly<Record<string, unknown>> }
  /** `error`: the name of the exception; '' when the service gave none. */
  | { readonly ok: false; readonly failure: SendFailure; readonly error: string }

/** Milliseconds for one whole call. */
const DEADLINE = 15_000
/** Maximum bytes of a response. */
const MOST_BYTES = 1024 * 1024
/** Exceptions that say that a record itself is wrong, or too large. */
const OF_THE_EVENT: ReadonlySet<string> = new Set([
  'InvalidArgumentException',
  'InvalidParameterException',
  'RequestEntityTooLargeException',
  'SerializationException',
  'ValidationException'
])

/** One AWS service with JSON 1.1, with requests signed by Signature Version 4. */
export class AwsService {
  readonly #parts: AwsServiceParts

  constructor(parts: AwsServiceParts) {
    this.#parts = parts
  }

  /** `target`: name of the API and of the operation, as the header X-Amz-Target says them. Never rejects. */
  async call(target: string, body: object, signal: AbortSignal): Promise<AwsAnswer> {
    const { arn, outbound } = this.#parts
    const text = JSON.stringify(body)
    const answer = await outbound.request({
      method: 'POST',
      repeatable: true,
      url: endpointOf(arn),
      headers: await this.#signed(target, text),
      body: Buffer.from(text),
      deadline: DEADLINE,
      maxResponseBytes: MOST_BYTES,
      signal
    })
    const data = answer.ok ? jsonOf(answer.body) : {}
    const failure = failureOf(answer)
    if (failure === undefined) return { ok: true, data }
    const error = exceptionOf(answer, data)
    const { message, retryAfter } = failure
    const fault = faultOf(answer, error)
    return {
      ok: false,
      error,
      failure: {
        message: `${message}${error && ` (${error})`}`,
        retryAfter,
        ...(fault === undefined ? {} : { fault })
      }
    }
  }

  async #signed(target: string, body: string): Promise<string[]> {
    const { arn, key, clock } = this.#parts
    const signer = new AwsV4Signer({
      method: 'POST',
      url: endpointOf(arn),
      headers: { 'content-type': 'application/x-amz-json-1.1', 'x-amz-target': target },
      body,
      accessKeyId: key.id,
      secretAccessKey: key.secret,
      service: arn.service,
      region: arn.region,
      datetime: new Date(clock.wall()).toISOString().replace(/[:-]|\.\d{3}/g, ''),
      // Sign all headers that the service uses.
      allHeaders: true
    })
    const { headers } = await signer.sign()
    return [...headers].flat()
  }
}

/** Status 400 also reports wrong keys, missing rights and throttling, so the exception decides. */
function faultOf(answer: OutboundResponse | OutboundError, error: string): SendFailure['fault'] {
  if (!answer.ok) return undefined
  if (answer.status === 413 || OF_THE_EVENT.has(error)) return 'event'
  return error === '' && answer.status === 400 ? 'unclear' : undefined
}

/** Reads the name of the exception from the body, in some services after `#`, or from a field. */
function exceptionOf(answer: OutboundResponse | OutboundError, data: Readonly<Record<string, unknown>>): string {
  if (!answer.ok) return ''
  const { __type: type } = data
  return wordOf(typeof type === 'string' ? type.slice(type.lastIndexOf('#') + 1) : undefined)
}

interface AwsKindOptions {
  /** Member of the target that names the resource. */
  readonly member: string
  readonly service: string
  /** Pattern of the resource, after the account in the ARN; its first group is the name. */
  readonly resource: RegExp
  open(service: AwsService, at: { readonly arn: string; readonly name: string }, parts: SenderParts): Sender
}

const NO_ROLE = 'this version assumes no roles: give the destination a key of its own (auth.creds)'

/** Creates a target kind at AWS. Only public addresses are allowed, unless the options allow others. */
export function awsKind({ member, service, resource, open }: AwsKindOptions): Kind {
  const find = (body: Readonly<Record<string, unknown>>): { arn: Arn; name: string } | undefined => {
    const arn = parseArn(textOf(body[member]))
    const name = arn?.service === service ? resource.exec(arn.resource)?.[1] : undefined
    return arn === undefined || name === undefined ? undefined : { arn, name }
  }
  return {
    unsupported(body) {
      if ((body.auth as Chosen).name !== 'creds') return NO_ROLE
      if (find(body) === undefined) return `${member} names nothing of ${service} in a region that is known here`
      return undefined
    },
    open({ body, secret }, parts) {
      const found = find(body)
      if (found === undefined) throw new TypeError('an unsupported target is opened')
      const { arn, name } = found
      const { value } = body.auth as Chosen
      const key = { id: textOf(value.aws_access_key_id), secret: secret('auth.creds.aws_secret_access_key') ?? '' }
      const { outbound, clock } = parts
      return open(new AwsService({ arn, key, outbound, clock }), { arn: textOf(body[member]), name }, parts)
    }
  }
}
