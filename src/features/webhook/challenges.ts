import { respond, type Verdict } from '../../flow/verdict.js'
import { isEmptyList, objectMember, readObject, textMember } from './json.js'
import { macKey, macOf, type WebhookRequest } from './scheme.js'

/** Answers a question by which a sender tests a URL before it sends there. Undefined: the request is no such question. */
export type Challenge = (request: WebhookRequest, secret: string) => Verdict | undefined | Promise<Verdict | undefined>

/** Nothing that a browser would take for a page, whatever it says. */
function answer(type: 'text/plain' | 'application/json', text: string): Verdict {
  const headers = ['content-type', `${type}; charset=utf-8`, 'x-content-type-options', 'nosniff']
  return respond(200, headers, Buffer.from(text, 'utf8'))
}

/** The one value of a parameter of the query. */
function parameter({ target }: WebhookRequest, name: string): string | undefined {
  const mark = target.indexOf('?')
  if (mark === -1) return undefined
  const values = new URLSearchParams(target.slice(mark + 1)).getAll(name)
  return values.length === 1 ? values[0] : undefined
}

const MAX_LENGTH = 256

/** Dropbox's verification request: `GET ?challenge=…`, whose value comes back as the body. */
export const dropboxChallenge: Challenge = (request) => {
  const value = request.method === 'GET' ? parameter(request, 'challenge') : undefined
  return value === undefined || value === '' || value.length > MAX_LENGTH ? undefined : answer('text/plain', value)
}

const FORM = { algorithm: 'sha256', encoding: 'base64' } as const
/**
 * The answer is a code of the token under the key that deliveries are signed with. A token that could be a delivery is not
 * answered, or any client could have one signed.
 */
const TOKEN = /^[A-Za-z0-9+/=_.-]{1,256}$/

/** Twitter's challenge-response check: `GET ?crc_token=…`. */
export const twitterChallenge: Challenge = async (request, secret) => {
  if (request.method !== 'GET') return undefined
  // A plus sign that was sent as it is has become a blank.
  const token = parameter(request, 'crc_token')?.replaceAll(' ', '+')
  if (token === undefined || !TOKEN.test(token)) return undefined
  const code = await macOf(FORM, macKey(secret), token)
  return answer('application/json', JSON.stringify({ response_token: `sha256=${code}` }))
}

/** Meta sends digits. */
const HUB_CHALLENGE = /^[A-Za-z0-9_.-]{1,256}$/

/**
 * Meta's verification request: `GET ?hub.mode=subscribe&hub.challenge=…`, whose challenge comes back as the body. The token beside
 * it tells the sender's own app and opens nothing: deliveries are signed.
 */
export const hubChallenge: Challenge = (request) => {
  if (request.method !== 'GET' || parameter(request, 'hub.mode') !== 'subscribe') return undefined
  const value = parameter(request, 'hub.challenge')
  return value !== undefined && HUB_CHALLENGE.test(value) ? answer('text/plain', value) : undefined
}

/** Mandrill's look whether the URL is there. */
export const headChallenge: Challenge = ({ method }) => (method === 'HEAD' ? respond(200) : undefined)

const SLACK_TYPE = 'url_verification'

/** Slack's verification of a URL: a signed event with a `challenge`, which comes back as the body. */
export const slackChallenge: Challenge = async ({ body }) => {
  // Other events are not parsed.
  if (!Buffer.from(body.buffer, body.byteOffset, body.byteLength).includes(SLACK_TYPE)) return undefined
  const event = await readObject(body, ['type', 'challenge'])
  if (event === undefined || event.get('type') !== SLACK_TYPE) return undefined
  const challenge = textMember(event, 'challenge')
  return challenge === undefined || challenge.length > MAX_LENGTH ? undefined : answer('text/plain', challenge)
}

const FIELD = 'x-gcs-webhooks-endpoint-verification'

/** Worldline's verification of an endpoint: a GET with a field whose value comes back as the body. */
export const worldlineChallenge: Challenge = ({ method, headers }) => {
  const values = headers.values(FIELD)
  const [value] = values
  if (method !== 'GET' || value === undefined || values.length > 1 || value.length > MAX_LENGTH) return undefined
  return answer('text/plain', value)
}

/** Longer bodies hold events. */
const XERO_MAX_LENGTH = 512

/** Xero's intent to receive: a signed delivery without events, answered by 200 and nothing else. */
export const xeroIntent: Challenge = async ({ body }) => {
  if (body.length > XERO_MAX_LENGTH) return undefined
  const object = await readObject(body, ['events', 'entropy'])
  if (object === undefined || typeof object.get('entropy') !== 'string') return undefined
  return isEmptyList(object, 'events') ? respond(200) : undefined
}

const EVENT = 'endpoint.url_validation'
const ZOOM_FORM = { algorithm: 'sha256', encoding: 'hex' } as const

/** Zoom's validation of an endpoint: a signed event with a `plainToken`, whose code comes back beside it. */
export const zoomChallenge: Challenge = async ({ body }, secret) => {
  // Other events are not parsed.
  if (!Buffer.from(body.buffer, body.byteOffset, body.byteLength).includes(EVENT)) return undefined
  const event = await readObject(body, ['event', 'payload'])
  if (event === undefined || event.get('event') !== EVENT) return undefined
  const payload = await objectMember(event, 'payload', ['plainToken'])
  const plainToken = payload === undefined ? undefined : textMember(payload, 'plainToken')
  if (plainToken === undefined) return undefined
  const encryptedToken = await macOf(ZOOM_FORM, macKey(secret), plainToken)
  return answer('application/json', JSON.stringify({ plainToken, encryptedToken }))
}
