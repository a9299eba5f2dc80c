/**
 * Waits for `work`, but no longer than `milliseconds`; resolves with its value, or undefined when the time was up. Work
 * that takes longer goes on, and a later failure of it is ignored. Rejects when the work fails in time.
 */
export async function atMost<T>(milliseconds: number, work: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), milliseconds)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
    work.catch(() => undefined)
  }
}
