/** Why a request is not taken for one of its sender: a closed set of codes, each with a sentence without data of the request. */
export const FAILURES = {
  SIGNATURE_MISSING: 'the request carries no signature',
  SIGNATURE_REPEATED: 'the request carries a field of its signature more than once',
  SIGNATURE_INVALID: 'the signature is not that of the sender over this request',
  TIMESTAMP_INVALID: 'the request carries no timestamp that can be read',
  TIMESTAMP_STALE: 'the timestamp of the request is too far from now',
  REPLAYED: 'the same delivery has come before',
  BODY_INVALID: 'the body is not of the form that the sender signs',
  CERTIFICATE_REFUSED: 'the certificate that the request names is not one of the sender',
  CERTIFICATE_UNAVAILABLE: 'the certificate of the sender could not be fetched',
  SECRET_UNUSABLE: 'the configured secret is none that this sender signs with'
} as const

export type Failure = keyof typeof FAILURES

/** The request is the sender's. */
export interface Accepted {
  readonly accepted: true
  /** The sender gives it to one delivery attempt only; absent when it has no such thing. */
  readonly once?: string
}

export type Finding = Failure | Accepted

export const ACCEPTED: Accepted = { accepted: true }
