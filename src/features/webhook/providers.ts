import {
  type Challenge,
  dropboxChallenge,
  headChallenge,
  hubChallenge,
  slackChallenge,
  twitterChallenge,
  worldlineChallenge,
  xeroIntent,
  zoomChallenge
} from './challenges.js'
import type { Scheme, Verify } from './scheme.js'
import { bodyMac, datedBodyMac, hygraph, numberedBodyMac, pairedMac, timedMac, urlBodyMac } from './schemes/body-mac.js'
import { plivo, urlFieldsMac } from './schemes/form-mac.js'
import { contentful, hubspot, mailgun, messageMac } from './schemes/message-mac.js'
import { basicCredentials, ecdsa, sharedToken, sns } from './schemes/token-and-key.js'

const MINUTE = 60_000
const MIB = 1024 * 1024

const hub256 = bodyMac({ header: 'x-hub-signature-256', prefix: 'sha256=' })
const hub = bodyMac({ header: 'x-hub-signature', prefix: 'sha256=' })
const base64 = { encoding: 'base64' } as const
const sha1 = { algorithm: 'sha1' } as const
const v0 = { prefix: 'v0=', before: (timestamp: string) => `v0:${timestamp}:` } as const

/** All senders known by name. */
const table = {
  aftership: { scheme: bodyMac({ header: 'aftership-hmac-sha256', ...base64 }) },
  airship: {
    // Its documentation signs the JSON text, and shows a compressed delivery.
    scheme: timedMac({
      headers: ['x-ua-signature'],
      timestamp: 'x-ua-timestamp',
      before: (time) => `${time}:`,
      content: true
    })
  },
  alchemy: { scheme: bodyMac({ header: 'x-alchemy-signature' }) },
  sns: { scheme: sns, withoutSecret: true },
  autodesk: { scheme: bodyMac({ header: 'x-adsk-signature', prefix: 'sha1hash=', ...sha1 }) },
  bitbucket: { scheme: hub },
  bolt: { scheme: bodyMac({ header: 'x-bolt-hmac-sha256', ...base64 }) },
  box: {
    scheme: timedMac({
      headers: ['box-signature-primary', 'box-signature-secondary'],
      timestamp: 'box-delivery-timestamp',
      after: (timestamp) => timestamp,
      tolerance: 10 * MINUTE,
      ...base64
    })
  },
  brex: { scheme: messageMac('webhook-') },
  buildkite: {
    scheme: pairedMac({ header: 'x-buildkite-signature', timestamp: 'timestamp', signature: 'signature' })
  },
  calendly: { scheme: pairedMac({ header: 'calendly-webhook-signature' }) },
  castle: { scheme: bodyMac({ header: 'x-castle-signature', ...base64 }) },
  chargify: { scheme: bodyMac({ header: 'x-chargify-webhook-signature-hmac-sha-256' }) },
  circleci: { scheme: bodyMac({ header: 'circleci-signature', prefix: 'v1=', separator: ',' }) },
  clearbit: { scheme: bodyMac({ header: 'x-request-signature', prefix: 'sha1=', ...sha1 }) },
  clerk: { scheme: messageMac('svix-', 'webhook-') },
  coinbase: { scheme: bodyMac({ header: 'x-cc-webhook-signature' }) },
  contentful: { scheme: contentful },
  docusign: { scheme: numberedBodyMac('x-docusign-signature') },
  dropbox: { scheme: bodyMac({ header: 'x-dropbox-signature' }), unsigned: dropboxChallenge },
  facebook_graph_api: { scheme: hub256, unsigned: hubChallenge },
  facebook_messenger: { scheme: hub256, unsigned: hubChallenge },
  frameio: {
    scheme: timedMac({ headers: ['x-frameio-signature'], timestamp: 'x-frameio-request-timestamp', ...v0 })
  },
  github: { scheme: hub256, largestBody: 25 * MIB },
  gitlab: { scheme: sharedToken('x-gitlab-token') },
  go1: { scheme: pairedMac({ header: 'go1-signature' }) },
  heroku: { scheme: bodyMac({ header: 'heroku-webhook-hmac-sha256', ...base64 }) },
  hostedhooks: { scheme: pairedMac({ header: 'hostedhooks-signature', signature: 's' }) },
  hubspot: { scheme: hubspot },
  graphcms: { scheme: hygraph },
  instagram: { scheme: hub256, unsigned: hubChallenge },
  intercom: { scheme: bodyMac({ header: 'x-hub-signature', prefix: 'sha1=', ...sha1 }) },
  jira: { scheme: hub },
  launch_darkly: { scheme: bodyMac({ header: 'x-ld-signature' }) },
  linear: { scheme: datedBodyMac({ header: 'linear-signature', member: 'webhookTimestamp', tolerance: MINUTE }) },
  mailchimp: { scheme: urlFieldsMac({ header: 'x-mandrill-signature' }), unsigned: headChallenge },
  mailgun: { scheme: mailgun, unconfirmed: 'whether a repeated delivery has a new timestamp' },
  microsoft_teams: { scheme: bodyMac({ header: 'authorization', prefix: 'HMAC ', key: 'base64', ...base64 }) },
  modern_treasury: { scheme: bodyMac({ header: 'x-signature' }) },
  mongodb: { scheme: bodyMac({ header: 'x-mms-signature', ...sha1, ...base64 }) },
  mux: { scheme: pairedMac({ header: 'mux-signature' }) },
  orb: {
    scheme: timedMac({
      headers: ['x-orb-signature'],
      timestamp: 'x-orb-timestamp',
      prefix: 'v1=',
      separator: ' ',
      before: (timestamp) => `v1:${timestamp}:`
    })
  },
  orbit: {
    scheme: bodyMac({ header: 'x-orbit-signature', prefix: 'sha256=' }),
    unconfirmed: 'the whole scheme; its documentation is gone'
  },
  pagerduty: { scheme: bodyMac({ header: 'x-pagerduty-signature', prefix: 'v1=', separator: ',' }) },
  pinwheel: {
    scheme: timedMac({
      headers: ['x-pinwheel-signature'],
      timestamp: 'x-timestamp',
      prefix: 'v2=',
      before: (timestamp) => `v2:${timestamp}:`
    })
  },
  plivo: { scheme: plivo },
  pusher: { scheme: bodyMac({ header: 'x-pusher-signature' }) },
  sendgrid: {
    scheme: ecdsa({
      header: 'x-twilio-email-event-webhook-signature',
      timestamp: 'x-twilio-email-event-webhook-timestamp'
    })
  },
  sentry: { scheme: bodyMac({ header: 'sentry-hook-signature' }) },
  shopify: { scheme: bodyMac({ header: 'x-shopify-hmac-sha256', ...base64 }) },
  signal_sciences: { scheme: bodyMac({ header: 'x-sigsci-signature' }) },
  slack: {
    scheme: timedMac({ headers: ['x-slack-signature'], timestamp: 'x-slack-request-timestamp', ...v0 }),
    signed: slackChallenge
  },
  sonatype: { scheme: bodyMac({ header: 'x-nexus-webhook-signature', ...sha1 }) },
  square: { scheme: urlBodyMac('x-square-hmacsha256-signature') },
  stripe: { scheme: pairedMac({ header: 'stripe-signature' }) },
  svix: { scheme: messageMac('svix-', 'webhook-') },
  terraform: { scheme: bodyMac({ header: 'x-tfe-notification-signature', algorithm: 'sha512' }) },
  tiktok: { scheme: pairedMac({ header: 'tiktok-signature', signature: 's' }) },
  trendmicro_conformity: { scheme: bodyMac({ header: 'x-conformity-signature' }) },
  twilio: { scheme: urlFieldsMac({ header: 'x-twilio-signature', bodyHash: 'bodySHA256' }) },
  twitter: {
    scheme: bodyMac({ header: 'x-twitter-webhooks-signature', prefix: 'sha256=', objects: true, ...base64 }),
    unsigned: twitterChallenge
  },
  typeform: { scheme: bodyMac({ header: 'typeform-signature', prefix: 'sha256=', ...base64 }) },
  vmware: { scheme: basicCredentials },
  webex: { scheme: bodyMac({ header: 'x-spark-signature', ...sha1 }) },
  whatsapp: { scheme: hub256, unsigned: hubChallenge },
  worldline: { scheme: bodyMac({ header: 'x-gcs-signature', ...base64 }), unsigned: worldlineChallenge },
  xero: { scheme: bodyMac({ header: 'x-xero-signature', ...base64 }), signed: xeroIntent, refusal: 401 },
  zendesk: {
    scheme: timedMac({
      headers: ['x-zendesk-webhook-signature'],
      timestamp: 'x-zendesk-webhook-signature-timestamp',
      before: (timestamp) => timestamp,
      ...base64
    })
  },
  zoom: {
    scheme: timedMac({ headers: ['x-zm-signature'], timestamp: 'x-zm-request-timestamp', ...v0 }),
    signed: zoomChallenge
  }
} satisfies Record<string, Provider>

/** Senders by lower-case name. */
export const providers: ReadonlyMap<string, Provider> = new Map<string, Provider>(Object.entries(table))

/** Returns why `secret` is invalid for this sender, as the rest of a sentence without any part of it; undefined if it is valid. */
export function secretProblem(provider: Provider, secret: string): string | undefined {
  const prepared = prepareSecrets(provider, secret)
  return typeof prepared === 'string' ? prepared : undefined
}

/** Maximum number of secrets of a sender: each costs a signature of the body. */
const MOST_SECRETS = 8

/** Secret of a sender with its compiled verification. */
export interface PreparedSecret {
  readonly secret: string
  readonly verify: Verify
}

/** Prepares each line of `text`, so that a new secret is valid beside the old one; or returns why one is invalid for this sender. */
export function prepareSecrets(provider: Provider, text: string): readonly PreparedSecret[] | string {
  const secrets = provider.withoutSecret === true ? [''] : text.split(/\r?\n/).filter((line) => line !== '')
  if (secrets.length === 0) return 'must not be empty'
  if (secrets.length > MOST_SECRETS) return `must be at most ${MOST_SECRETS} lines`
  const prepared: PreparedSecret[] = []
  for (const secret of secrets) {
    const verify = provider.scheme(secret)
    if (typeof verify === 'string') return verify
    prepared.push({ secret, verify })
  }
  return prepared
}

/** Sentence about unconfirmed schemes for descriptions; '' if there are none. */
export const UNCONFIRMED = [...providers]
  .flatMap(([name, { unconfirmed }]) => (unconfirmed === undefined ? [] : [`${name} (${unconfirmed})`]))
  .join(', ')

/** Sender of webhooks. */
export interface Provider {
  readonly scheme: Scheme
  /** Responds to tests without a signature. */
  readonly unsigned?: Challenge
  /** Responds to tests with a delivery's signature. */
  readonly signed?: Challenge
  /** Maximum size of its deliveries if above limits.buffered_body; counted in the budget of all bodies. */
  readonly largestBody?: number
  /** Status for an invalid signature, whose response is empty then. @default 403, with the body of an error */
  readonly refusal?: number
  /** Signs with its own private key. */
  readonly withoutSecret?: boolean
  /** Part of its scheme that no public documentation of the sender confirms. */
  readonly unconfirmed?: string
}
