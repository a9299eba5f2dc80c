import { sql, type Transaction } from 'kysely'
import type { Tables } from './tables.js'

/*
 * Ledger of rate limits in PostgreSQL. Its rules are at the head of src/features/rate-limit/leases/member.ts.
 *
 * Tables are logged, and a call is committed with a flush to disk, so that grants survive a crash. An unlogged table would be empty then,
 * and permits that members hold would be granted twice.
 *
 * One call is one statement, so a paused process keeps no row locked. Rows are locked in order of their ids. Time is the server's, read
 * once the row is locked; it never goes back for a row. After a change of the server, detected by its start time, the history is compared:
 * another timeline is a server that may lack commits of the previous one.
 */

/** Channel for bucket changes. The message is a mark and the bucket id. */
export const LIMITS_CHANNEL = 'sluice_limits'
/** Marks of the messages: permits are recalled, or the bucket was cleared. */
export const MARKS = { recalled: '-', cleared: '0' } as const

const TABLES = [
  `create table limit_ledger (
    one integer primary key check (one = 1),
    started timestamptz not null,
    history text not null,
    closed_at bigint not null
  )`,
  `insert into limit_ledger values (1, '-infinity', '', 0)`,
  `create table limit_members (
    id text primary key,
    serial bigint not null,
    acked bigint not null,
    share double precision not null default 0,
    admits boolean not null default false,
    local_at bigint not null default 0
  ) with (fillfactor = 50)`,
  `create table limit_buckets (
    id text collate "C" primary key,
    at bigint not null default 0,
    ends bigint[] not null default '{}',
    counts integer[] not null default '{}',
    holders text[] not null default '{}',
    accounts integer[] not null default '{}',
    known bigint[] not null default '{}',
    open bigint[] not null default '{}',
    until bigint[] not null default '{}',
    recalled bigint not null default 0,
    cleared bigint not null default 0,
    empty_at bigint not null default 0
  ) with (fillfactor = 50)`,
  // About 470 timestamps at most: compressing them costs more than the call.
  'alter table limit_buckets alter ends set storage plain, alter counts set storage plain'
]

const NOW = `
create function sluice_limits_now(p_now bigint) returns bigint language sql volatile as $$
  select coalesce(p_now, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
$$`

/** Returns when the ledger last had to assume that data is missing. */
const HISTORY = `
create function sluice_limits_history(p_now bigint) returns bigint language plpgsql volatile as $$
declare
  l limit_ledger;
  line text;
begin
  select * into l from limit_ledger;
  if l.started = pg_postmaster_start_time() then return l.closed_at; end if;
  select * into l from limit_ledger for update;
  if l.started = pg_postmaster_start_time() then return l.closed_at; end if;
  begin
    select system_identifier::text || ' ' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)
      into line from pg_control_system();
  exception when others then
    line := '';
  end;
  if l.history <> '' and l.history is distinct from line then l.closed_at := p_now; end if;
  update limit_ledger set started = pg_postmaster_start_time(), history = line, closed_at = l.closed_at;
  return l.closed_at;
end
$$`

/** Sets the share that a member may admit on its own, and removes members that are silent for long. */
const BEAT = `
create function sluice_limits_beat(p_now bigint, p_member text, p_share double precision) returns double precision
language plpgsql volatile as $$
declare
  gone constant bigint := 900000;
  others double precision;
  members bigint;
  offered double precision;
begin
  perform pg_advisory_xact_lock(7583943);
  delete from limit_members m using (
    select id from limit_members where acked < p_now - gone and id <> p_member for update skip locked
  ) g where m.id = g.id;
  select count(*) filter (where admits), coalesce(sum(share), 0) into members, others from limit_members where id <> p_member;
  offered := greatest(0, least(1 / (members + 1)::double precision, 1 - others));
  update limit_members set share = greatest(p_share, offered), admits = true where id = p_member;
  return offered;
end
$$`

/** Processes one bucket of a call; returns account, granted, free, used, leased, next and reset as JSON. */
const BUCKET = `
create function sluice_limits_bucket(
  p_now bigint, p_member text, p_serial bigint, p_answered bigint, p_closed_at bigint, p_reserves boolean,
  e_id text, e_rate bigint, e_capacity bigint, e_account bigint, e_totals bigint[], e_ages bigint[], e_held bigint,
  e_want bigint, e_least bigint, e_loss text, e_recall boolean
) returns text language plpgsql volatile as $$
declare
  lease constant bigint := 2100;
  margin constant bigint := 100;
  silent constant bigint := 15000;
  span bigint := e_rate + margin;
  b limit_buckets;
  was limit_buckets;
  n bigint;
  add_ends bigint[] := '{}';
  add_counts bigint[] := '{}';
  holders text[] := '{}';
  accounts bigint[] := '{}';
  known bigint[] := '{}';
  opens bigint[] := '{}';
  ends_at bigint[] := '{}';
  mine boolean := false;
  my_known bigint := 0;
  my_open bigint := 0;
  leased bigint := 0;
  used bigint;
  coarse bigint := 1;
  gone integer := 0;
  last integer;
  at bigint;
  reserved bigint := 0;
  shut_until bigint;
  shut boolean;
  left_over bigint;
  granted bigint := 0;
  account bigint := 0;
  waits bigint := 0;
  rests bigint;
begin
  loop
    select * into b from limit_buckets where id = e_id for update;
    exit when found;
    insert into limit_buckets (id) values (e_id) on conflict do nothing;
  end loop;
  was := b;
  n := greatest(sluice_limits_now(p_now), b.at);

  for i in 1 .. cardinality(b.holders) loop
    if b.until[i] <= n then
      add_ends := add_ends || (b.until[i] + span);
      add_counts := add_counts || b.open[i];
    elsif b.holders[i] <> p_member then
      holders := holders || b.holders[i];
      accounts := accounts || b.accounts[i];
      known := known || b.known[i];
      opens := opens || b.open[i];
      ends_at := ends_at || b.until[i];
      leased := leased + b.open[i];
    elsif b.accounts[i] = e_account then
      mine := true;
      my_known := b.known[i];
      for k in 1 .. cardinality(e_totals) loop
        continue when e_totals[k] <= my_known;
        add_ends := add_ends || (n - e_ages[k] + span);
        add_counts := add_counts || (e_totals[k] - my_known);
        my_known := e_totals[k];
      end loop;
      my_open := greatest(0, least(e_held, b.open[i] - (my_known - b.known[i])));
    elsif p_answered = 0 or b.accounts[i] <= p_answered then
      add_ends := add_ends || (n + span);
      add_counts := add_counts || b.open[i];
    end if;
  end loop;

  -- Beyond 64 moments those that are near to each other count as the later one.
  if cardinality(b.ends) >= 64 then coarse := greatest(1, e_rate / 400); end if;
  while b.ends[gone + 1] <= n loop gone := gone + 1; end loop;
  if gone > 0 then
    b.ends := b.ends[gone + 1 :];
    b.counts := b.counts[gone + 1 :];
  end if;
  for i in 1 .. cardinality(add_ends) loop
    at := ((add_ends[i] + coarse - 1) / coarse) * coarse;
    last := cardinality(b.ends);
    if at <= n or add_counts[i] = 0 then
      continue;
    elsif last = 0 or at > b.ends[last] then
      b.ends := b.ends || at;
      b.counts := b.counts || add_counts[i];
    else
      while last > 1 and b.ends[last - 1] >= at loop last := last - 1; end loop;
      if b.ends[last] = at then
        b.counts[last] := b.counts[last] + add_counts[i];
      else
        b.ends := b.ends[: last - 1] || at || b.ends[last :];
        b.counts := b.counts[: last - 1] || add_counts[i] || b.counts[last :];
      end if;
    end if;
  end loop;
  select coalesce(sum(x), 0) into used from unnest(b.counts) as x;

  if p_reserves and e_loss = 'local' then
    select floor(coalesce(sum(share), 0) * e_capacity) into reserved from limit_members
      where (id <> p_member and acked < n - silent) or local_at > n - span;
  end if;
  shut_until := p_closed_at + e_rate + lease + margin;
  shut := e_loss <> 'open' and n < shut_until and b.cleared <= p_closed_at;
  left_over := case when shut then 0 else greatest(0, e_capacity - used - leased - my_open - reserved) end;
  if e_want > 0 and left_over >= e_least then
    granted := least(e_want, left_over, greatest(e_least,
      case when cardinality(holders) = 0 then left_over else left_over / 2 end));
  end if;
  if my_open + granted > 0 then
    account := case when mine then e_account else p_serial end;
    holders := holders || p_member;
    accounts := accounts || account;
    known := known || my_known;
    opens := opens || (my_open + granted);
    ends_at := ends_at || (n + lease);
  end if;
  b.holders := holders;
  b.accounts := accounts;
  b.known := known;
  b.open := opens;
  b.until := ends_at;

  if (e_recall or (e_want > 0 and granted < e_least)) and leased > 0 and n - b.recalled >= 50 then
    b.recalled := n;
    perform pg_notify('${LIMITS_CHANNEL}', '${MARKS.recalled}' || e_id);
  end if;
  if left_over < e_least then
    if shut then
      waits := shut_until - n;
    else
      select coalesce(min(s.at) - n, e_rate) into waits from (
        select x.at, sum(x.uses) over (order by x.at) as gone from unnest(b.ends, b.counts) as x(at, uses)
      ) s where s.gone >= used + leased + my_open + reserved + e_least - e_capacity;
      -- Others may give back before.
      if leased > 0 then waits := least(waits, 1000); end if;
    end if;
  end if;
  rests := case
    when leased + my_open + granted > 0 then e_rate
    else coalesce(b.ends[cardinality(b.ends)] - n, 0)
  end;
  if b is distinct from was then
    update limit_buckets set
      at = n, ends = b.ends, counts = b.counts, holders = b.holders, accounts = b.accounts, known = b.known,
      open = b.open, until = b.until, recalled = b.recalled,
      empty_at = greatest(b.ends[cardinality(b.ends)], (select max(x) + span from unnest(b.until) as x), n)
      where id = e_id;
  end if;
  return format('[%s,%s,%s,%s,%s,%s,%s]', account, granted, left_over - granted, used, leased, waits, rests);
end
$$`

/** Processes one call; returns the time, the share or null, the results of its buckets or null, and the silent members, as JSON. */
const CALL = `
create function sluice_limits_call(
  p_now bigint, p_member text, p_serial bigint, p_answered bigint, p_seen bigint,
  p_share double precision, p_local boolean, p_entries jsonb
) returns text language plpgsql volatile as $$
declare
  silent constant bigint := 15000;
  day constant bigint := 90000000;
  t bigint;
  closed_at bigint;
  m limit_members;
  reserves boolean;
  share double precision;
  grants text;
  silent_members text := '';
begin
  if current_setting('synchronous_commit') = 'off' then
    perform set_config('synchronous_commit', 'local', true);
  end if;
  select * into m from limit_members where id = p_member for update;
  if m.serial >= p_serial then return format('[%s,null,null,[]]', sluice_limits_now(p_now)); end if;
  t := sluice_limits_now(p_now);
  closed_at := sluice_limits_history(t);
  if coalesce(m.serial, 0) < p_answered then
    update limit_ledger l set closed_at = greatest(l.closed_at, t) returning l.closed_at into closed_at;
  end if;
  insert into limit_members as l (id, serial, acked, local_at)
    values (p_member, p_serial, t, case when p_local then t else 0 end)
    on conflict (id) do update set
      serial = p_serial,
      acked = greatest(l.acked, p_seen),
      local_at = case when p_local then t else l.local_at end
      where l.serial < p_serial;
  if not found then return format('[%s,null,null,[]]', t); end if;
  select exists (
    select from limit_members where (id <> p_member and acked < t - silent) or local_at > t - day
  ) into reserves;
  select coalesce(string_agg(sluice_limits_bucket(
      p_now, p_member, p_serial, p_answered, closed_at, reserves,
      e.id, e.rate, e.capacity, e.account, e.totals, e.ages, e.held, e.want, e.least, e.loss, e.recall
    ), ',' order by e.place), '')
    into grants
    from (
      select x.* from rows from (
        jsonb_to_recordset(p_entries) as (
          id text, rate bigint, capacity bigint, account bigint, totals bigint[], ages bigint[], held bigint,
          want bigint, least bigint, loss text, recall boolean
        )
      ) with ordinality as x(id, rate, capacity, account, totals, ages, held, want, least, loss, recall, place)
      order by x.place
    ) e;
  -- Last, so that nothing is waited for behind it.
  if p_share is not null then
    share := sluice_limits_beat(t, p_member, p_share);
    select coalesce(string_agg(to_json(id)::text, ','), '') into silent_members from (
      select id from limit_members where acked < t - silent and id <> p_member order by id limit 20
    ) s;
  end if;
  return format('[%s,%s,[%s],[%s]]', t, coalesce(share::text, 'null'), grants, silent_members);
end
$$`

/** Deletes expired buckets among the next ones after an id; returns the last id, null at the end. */
const SWEEP = `
create function sluice_limits_sweep(p_now bigint, p_after text, p_most integer) returns text
language plpgsql volatile as $$
declare
  last_id text;
begin
  select max(id) into last_id from (
    select id from limit_buckets where id > p_after order by id limit p_most
  ) piece;
  delete from limit_buckets b using (
    select id from limit_buckets
      where id > p_after and id <= last_id and empty_at < sluice_limits_now(p_now)
      order by id for update skip locked
  ) g where b.id = g.id;
  return last_id;
end
$$`

const CLEAR = `
create function sluice_limits_clear(p_now bigint, p_id text) returns void language plpgsql volatile as $$
declare
  n bigint := sluice_limits_now(p_now);
begin
  insert into limit_buckets as b (id, cleared, at, empty_at) values (p_id, n, n, n + 86400000)
    on conflict (id) do update set ends = '{}', counts = '{}', cleared = greatest(b.at, n), at = greatest(b.at, n);
  perform pg_notify('${LIMITS_CHANNEL}', '${MARKS.cleared}' || p_id);
end
$$`

const LEAVE = `
create function sluice_limits_leave(p_now bigint, p_member text) returns void language sql volatile as $$
  delete from limit_members where id = p_member and local_at < sluice_limits_now(p_now) - 900000
$$`

/** Creates the tables and functions of the ledger. */
export async function createLimitLedger(transaction: Transaction<Tables>): Promise<void> {
  for (const statement of [...TABLES, NOW, HISTORY, BEAT, BUCKET, CALL, SWEEP, CLEAR, LEAVE]) {
    await sql.raw(statement).execute(transaction)
  }
}
