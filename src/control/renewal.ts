import { type BackoffRange, pauseAfter } from '../lib/concurrency.js'
import { timestampText } from '../lib/json.js'
import type { CertificateWork, ManagementStatus } from '../resources/domains.js'
import type { ResourceRecord } from '../schema/field.js'
import { ControlError, controlErrors } from './errors.js'

const DAY = 86_400_000

const ASKED = 'A renewal was asked for.'

/**
 * The record with its managed certificate to be requested at `now` (milliseconds since the Unix epoch); the record itself while
 * that is so. Users wait as long as the service does: after a failed attempt for its pause, and after a certificate that came
 * early for longer and longer. Fails with `CERTIFICATE_NOT_MANAGED` and `RENEWAL_TOO_SOON`.
 */
export function withRenewal(record: ResourceRecord, now: number): ResourceRecord {
  const { body } = record
  if (body.certificate_management_policy === null) {
    throw new ControlError(
      controlErrors.CERTIFICATE_NOT_MANAGED,
      `the certificate of ${record.kind} ${record.id} is not managed`
    )
  }
  const status = body.certificate_management_status as ManagementStatus | null
  const work = (body.certificate_work ?? null) as CertificateWork | null
  // It is being requested, or will be within a second.
  if (status === null || work === null || status.provisioning_job?.error_code === null) return record
  const { provisioning_job: failed } = status
  if (failed === null && (status.renews_at === null || work.issued === null)) return record
  const earliest = failed === null ? (work.earliest ?? 0) : nextAttempt(failed, work, failed.error_code === 'DNS_ERROR')
  if (earliest > now) {
    const until = timestampText(earliest + 999)
    const why = failed === null ? 'the certificate in use is too new' : 'the last attempt failed'
    throw new ControlError(controlErrors.RENEWAL_TOO_SOON, `${why}: it may be requested again from ${until} on`, {
      details: { retries_at: until }
    })
  }
  const provisioning_job = { error_code: null, msg: ASKED, started_at: timestampText(now), retries_at: null }
  return {
    ...record,
    body: {
      ...body,
      certificate_management_status: { ...status, provisioning_job },
      certificate_work: failed === null ? { ...work, hurried: hurriedBy(work, now) } : work
    }
  }
}

/**
 * Returns the status with an earlier retry, because the cause of the last failure may have been corrected at `now` (ms since
 * the Unix epoch); undefined if there is no failure, or the next attempt is not later.
 */
export function withEarlierRetry(
  status: ManagementStatus | null,
  work: CertificateWork | null,
  now: number
): ManagementStatus | undefined {
  const job = status?.provisioning_job ?? null
  if (status === null || work === null || job === null || job.error_code === null) return undefined
  const at = Math.max(now, nextAttempt(job, work, true))
  if (job.retries_at !== null && Date.parse(job.retries_at) <= at) return undefined
  return { ...status, provisioning_job: { ...job, retries_at: timestampText(at) } }
}

/** Pauses after failures whose cause a user has corrected: an authority allows few failures per name and hour (ms). */
const CORRECTED_PAUSES: BackoffRange = { first: 60_000, longest: 12 * 60_000 }

/** Returns the earliest retry of a failed request (ms since the Unix epoch). */
function nextAttempt(
  { retries_at, started_at }: NonNullable<ManagementStatus['provisioning_job']>,
  { failures }: CertificateWork,
  isCorrected: boolean
): number {
  const planned = retries_at === null ? Number.POSITIVE_INFINITY : Date.parse(retries_at)
  if (!isCorrected && retries_at !== null) return planned
  return Math.min(planned, Date.parse(started_at) + pauseAfter(Math.max(failures, 1), CORRECTED_PAUSES))
}

/** Counts on from certificates that came early a short while ago. */
function hurriedBy({ hurried = 0, earliest = 0 }: CertificateWork, now: number): number {
  return now - earliest > DAY ? 1 : hurried + 1
}
