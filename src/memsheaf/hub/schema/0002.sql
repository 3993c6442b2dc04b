-- Servers and workers: tokens of members, turns that wait to be learned from, proposals, and what models cost.
SET LOCAL ROLE memsheaf_owner;

CREATE TABLE memsheaf.tokens (  -- of NAME:team; `digest` is the SHA-256 of the token
  namespace text COLLATE "C", digest bytea, login text COLLATE "C" NOT NULL, made timestamptz NOT NULL DEFAULT now(),
  expires timestamptz NOT NULL, revoked timestamptz, PRIMARY KEY (namespace, digest)
) PARTITION BY HASH (namespace);
CREATE TABLE memsheaf.inbox (  -- a turn that was learned from, or forgotten, is NULL and not taken in again
  namespace text COLLATE "C", id text COLLATE "C", login text COLLATE "C" NOT NULL, at timestamptz NOT NULL DEFAULT now(),
  place int NOT NULL, turn jsonb, batch text, tries int NOT NULL DEFAULT 0, PRIMARY KEY (namespace, id)
) PARTITION BY HASH (namespace);
CREATE INDEX ON memsheaf.inbox (namespace, login, at, place) WHERE turn IS NOT NULL;
CREATE TABLE memsheaf.proposals (  -- one that was decided is NULL and not proposed again
  namespace text COLLATE "C", id text COLLATE "C", login text COLLATE "C" NOT NULL, at timestamptz NOT NULL DEFAULT now(),
  proposal jsonb, outcome text NOT NULL DEFAULT '', decided_by text NOT NULL DEFAULT '', PRIMARY KEY (namespace, id)
) PARTITION BY HASH (namespace);
CREATE TABLE memsheaf.spend (
  namespace text COLLATE "C", day date, requests bigint NOT NULL, tokens bigint NOT NULL, PRIMARY KEY (namespace, day)
) PARTITION BY HASH (namespace);
SELECT memsheaf.protect(name) FROM unnest(ARRAY['tokens', 'inbox', 'proposals', 'spend']) name;
DROP POLICY mine ON memsheaf.tokens;  -- these are reached through functions alone
DROP POLICY mine ON memsheaf.inbox;
DROP POLICY mine ON memsheaf.spend;
REVOKE SELECT ON memsheaf.tokens, memsheaf.inbox, memsheaf.spend FROM memsheaf_member;

-- A login role for servers and workers, or another password for it; no member's login has such a name. Owner only.
CREATE FUNCTION memsheaf.create_service(login text, verifier text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF login !~ '^memsheaf-[a-z0-9-]{1,50}$' THEN
    RAISE check_violation USING MESSAGE = 'the login of a service begins with memsheaf-';
  END IF;
  EXECUTE format(CASE WHEN to_regrole(quote_ident(login)) IS NULL THEN 'CREATE ROLE %I LOGIN PASSWORD %L IN ROLE memsheaf_service'
    ELSE 'ALTER ROLE %I PASSWORD %L' END, login, verifier);
END $$;

-- What a removed member told and nobody has learned from goes, and so do their tokens.
CREATE POLICY removing ON memsheaf.tokens FOR DELETE TO memsheaf_owner
  USING (login = current_setting('memsheaf.removing', true));
CREATE POLICY removing ON memsheaf.inbox FOR DELETE TO memsheaf_owner
  USING (login = current_setting('memsheaf.removing', true));
CREATE POLICY shown ON memsheaf.tokens FOR SELECT TO memsheaf_owner
  USING (login = current_setting('memsheaf.removing', true));
CREATE POLICY shown ON memsheaf.inbox FOR SELECT TO memsheaf_owner
  USING (login = current_setting('memsheaf.removing', true));
CREATE OR REPLACE FUNCTION memsheaf.forget_member(login text) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  PERFORM set_config('memsheaf.removing', forget_member.login, true);
  DELETE FROM memsheaf.tokens t WHERE t.login = forget_member.login;
  DELETE FROM memsheaf.inbox i WHERE i.login = forget_member.login;
  PERFORM set_config('memsheaf.removing', '', true);
END $$;

-- The member that a token names, if it is valid now. For servers.
CREATE FUNCTION memsheaf.token_member(ns text, digest bytea, OUT login text, OUT name text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  PERFORM set_config('memsheaf.namespace', ns, true);
  SELECT m.login, m.name INTO token_member.login, token_member.name FROM memsheaf.tokens t
    JOIN memsheaf.members m ON m.namespace = ns AND m.login = t.login
    WHERE t.namespace = ns AND t.digest = token_member.digest AND t.revoked IS NULL AND t.expires > now();
  PERFORM set_config('memsheaf.namespace', '', true);
END $$;

-- Keep a token: one's own, or as an admin another member's.
CREATE FUNCTION memsheaf.add_token(ns text, name text, digest bytea, days int) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  who text := memsheaf.enter(ns, CASE WHEN memsheaf.enter(ns, 'reader') = add_token.name THEN 'reader' ELSE 'admin' END);
  whose text;
BEGIN
  SELECT m.login INTO whose FROM memsheaf.members m WHERE m.namespace = ns AND m.name = add_token.name;
  IF whose IS NULL OR octet_length(add_token.digest) <> 32 OR days NOT BETWEEN 1 AND 3660 THEN
    RAISE check_violation USING MESSAGE = 'no member has that name, or the token is not sound';
  END IF;
  INSERT INTO memsheaf.tokens VALUES (ns, add_token.digest, whose, now(), now() + make_interval(days => days));
  RETURN now() + make_interval(days => days);
END $$;

-- The tokens of a team, one's own or for an admin all; `id` are the first digits of the digest.
CREATE FUNCTION memsheaf.list_tokens(ns text)
RETURNS TABLE (id text, name text, made timestamptz, expires timestamptz, revoked timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE who text := memsheaf.enter(ns, 'reader');
BEGIN
  RETURN QUERY SELECT left(encode(t.digest, 'hex'), 12), coalesce(m.name, t.login), t.made, t.expires, t.revoked
    FROM memsheaf.tokens t LEFT JOIN memsheaf.members m ON m.namespace = ns AND m.login = t.login
    WHERE t.namespace = ns AND (t.login = memsheaf.me() OR EXISTS (SELECT FROM memsheaf.members a
      WHERE a.namespace = ns AND a.login = memsheaf.me() AND a.role = 'admin')) ORDER BY t.made;
END $$;

-- Revoke tokens by id, or all of a member by name; gives how many were valid.
CREATE FUNCTION memsheaf.revoke_token(ns text, which text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  who text := memsheaf.enter(ns, 'reader');
  done bigint;
BEGIN
  UPDATE memsheaf.tokens t SET revoked = now() FROM memsheaf.list_tokens(ns) l
    WHERE t.namespace = ns AND left(encode(t.digest, 'hex'), 12) = l.id AND which IN (l.id, l.name) AND t.revoked IS NULL;
  GET DIAGNOSTICS done = ROW_COUNT;
  RETURN done;
END $$;

-- Open a namespace of a team for the caller: their own memories, or those of a project or an agent of the team. What
-- a member made with `create_space` stays private.
ALTER TABLE memsheaf.spaces ADD COLUMN shared boolean NOT NULL DEFAULT false;
CREATE FUNCTION memsheaf.join_space(ns text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  team text := split_part(ns, ':', 1) || ':team';
  who text := memsheaf.enter(team, 'reader');
  needed text;
BEGIN
  IF split_part(ns, ':', 2) = 'user/' || who THEN
    needed := 'admin';
  ELSIF split_part(ns, ':', 2) ~ '^(project|agent)/[a-z0-9-]{1,64}$' THEN
    SELECT m.role INTO needed FROM memsheaf.members m WHERE m.namespace = team AND m.login = memsheaf.me();
  ELSE
    RAISE insufficient_privilege USING MESSAGE = 'not a namespace of this member';
  END IF;
  PERFORM set_config('memsheaf.namespace', ns, true);
  INSERT INTO memsheaf.spaces (namespace, shared) VALUES (ns, true) ON CONFLICT DO NOTHING;
  IF NOT (SELECT s.shared FROM memsheaf.spaces s WHERE s.namespace = ns) THEN
    PERFORM memsheaf.enter(ns, 'reader');
    RETURN;
  END IF;
  INSERT INTO memsheaf.members AS m (namespace, login, name, role) VALUES (ns, memsheaf.me(), who, needed)
    ON CONFLICT (namespace, login) DO UPDATE SET role = excluded.role WHERE m.role <> excluded.role;
END $$;

-- Take turns in: [{id, turn}, …]; gives how many are new.
CREATE FUNCTION memsheaf.add_turns(ns text, turns jsonb) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  who text := memsheaf.enter(ns, 'writer');
  done bigint;
BEGIN
  IF octet_length(turns::text) > 8388608 OR 10000 < (SELECT count(*) FROM memsheaf.inbox i
    WHERE i.namespace = ns AND i.login = memsheaf.me() AND i.turn IS NOT NULL) THEN
    RAISE check_violation USING MESSAGE = 'too much waits to be learned from';
  END IF;
  INSERT INTO memsheaf.inbox (namespace, id, login, place, turn)
    SELECT ns, t.value ->> 'id', memsheaf.me(), t.ordinality, t.value -> 'turn'
    FROM jsonb_array_elements(turns) WITH ORDINALITY t ON CONFLICT DO NOTHING;
  GET DIAGNOSTICS done = ROW_COUNT;
  RETURN done;
END $$;

-- The next turns of one conversation of the caller's, about so many bytes; the same until they are finished.
CREATE FUNCTION memsheaf.take_turns(ns text, most bigint) RETURNS TABLE (batch text, tries int, turn jsonb)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  who text := memsheaf.enter(ns, 'writer');
  first record;
  taken text;
BEGIN
  SELECT i.batch, i.id, i.turn ->> 'conversation' AS conversation INTO first FROM memsheaf.inbox i
    WHERE i.namespace = ns AND i.login = memsheaf.me() AND i.turn IS NOT NULL
    ORDER BY i.batch IS NULL, i.at, i.place LIMIT 1;
  taken := coalesce(first.batch, first.id);
  IF first.batch IS NULL THEN
    UPDATE memsheaf.inbox i SET batch = taken FROM (
      SELECT w.id, sum(octet_length(w.turn::text)) OVER (ORDER BY w.at, w.place) AS size FROM memsheaf.inbox w
      WHERE w.namespace = ns AND w.login = memsheaf.me() AND w.turn ->> 'conversation' = first.conversation) s
      WHERE i.namespace = ns AND i.id = s.id AND i.turn IS NOT NULL AND (s.size <= most OR i.id = first.id);
  END IF;
  UPDATE memsheaf.inbox i SET tries = i.tries + 1
    WHERE i.namespace = ns AND i.login = memsheaf.me() AND i.batch = taken AND i.turn IS NOT NULL;
  RETURN QUERY SELECT i.batch, i.tries, i.turn FROM memsheaf.inbox i
    WHERE i.namespace = ns AND i.login = memsheaf.me() AND i.batch = taken AND i.turn IS NOT NULL ORDER BY i.at, i.place;
END $$;

-- These turns were learned from, and this is proposed: [{id, proposal}, …].
CREATE FUNCTION memsheaf.finish_turns(ns text, done text, proposed jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE who text := memsheaf.enter(ns, 'writer');
BEGIN
  INSERT INTO memsheaf.proposals (namespace, id, login, proposal)
    SELECT ns, p.value ->> 'id', memsheaf.me(), p.value -> 'proposal' FROM jsonb_array_elements(proposed) p
    WHERE NOT EXISTS (SELECT FROM memsheaf.inbox i  -- what it was learned from was erased meanwhile
      WHERE i.namespace = ns AND i.login = memsheaf.me() AND i.batch = done AND i.turn IS NULL)
    ON CONFLICT DO NOTHING;
  UPDATE memsheaf.inbox i SET turn = NULL WHERE i.namespace = ns AND i.login = memsheaf.me() AND i.batch = done;
  DELETE FROM memsheaf.inbox i
    WHERE i.namespace = ns AND i.login = memsheaf.me() AND i.turn IS NULL AND i.at < now() - interval '30 days';
END $$;

-- A person decided about a proposal: its text is forgotten. False when somebody else did before.
CREATE FUNCTION memsheaf.decide_proposal(ns text, which text, decided text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE who text := memsheaf.enter(ns, 'writer');
BEGIN
  UPDATE memsheaf.proposals p SET proposal = NULL, outcome = left(decided, 40), decided_by = who
    WHERE p.namespace = ns AND p.id = which AND p.proposal IS NOT NULL;
  RETURN FOUND;
END $$;

-- Take what a request to a model may cost from the day of a team; false when the day has no room. For workers.
CREATE FUNCTION memsheaf.reserve_spend(ns text, cost bigint, most_requests bigint, most_tokens bigint) RETURNS date
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  PERFORM set_config('memsheaf.namespace', ns, true);
  IF most_requests < 1 OR cost > most_tokens THEN
    RETURN NULL;
  END IF;
  INSERT INTO memsheaf.spend AS s VALUES (ns, current_date, 1, cost)
    ON CONFLICT (namespace, day) DO UPDATE SET requests = s.requests + 1, tokens = s.tokens + cost
    WHERE s.requests < most_requests AND s.tokens + cost <= most_tokens;
  RETURN CASE WHEN FOUND THEN current_date END;
END $$;
CREATE FUNCTION memsheaf.settle_spend(ns text, of_day date, more bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM set_config('memsheaf.namespace', ns, true);
  UPDATE memsheaf.spend s SET tokens = s.tokens + more WHERE s.namespace = ns AND s.day = of_day;
END $$;

-- What waits and says what erased texts said is forgotten. `plain` is how texts are compared.
CREATE FUNCTION memsheaf.plain(said text) RETURNS text LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT trim(regexp_replace(lower(said), '[^[:alnum:]]+', ' ', 'g'))
$$;
CREATE FUNCTION memsheaf.plain(data bytea) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN convert_from(data, 'UTF8');
EXCEPTION WHEN data_exception THEN
  RETURN '';
END $$;
CREATE FUNCTION memsheaf.plain(value jsonb) RETURNS text LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(string_agg(memsheaf.plain(v #>> '{}'), ' '), '')
    FROM jsonb_path_query(value, '$.**') v WHERE jsonb_typeof(v) = 'string'
$$;
CREATE OR REPLACE FUNCTION memsheaf.forget_waiting(ns text, versions text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE pieces text[];
BEGIN
  SELECT array_agg(DISTINCT p.piece) INTO pieces FROM memsheaf.texts t
    CROSS JOIN LATERAL (SELECT memsheaf.plain(t.data) AS said) s
    CROSS JOIN LATERAL (SELECT regexp_replace(s.said, '^---\n.*?\n---\n', '') AS body) b
    CROSS JOIN LATERAL (
      SELECT memsheaf.plain(b.body) AS piece
      UNION SELECT memsheaf.plain(l) FROM regexp_split_to_table(b.body, '\n|[.!?;]\s') l
        WHERE memsheaf.plain(l) ~ '\S+ \S+ \S+ \S+'
      UNION SELECT memsheaf.plain((regexp_match(s.said, '\n' || h || ': ([^\n]*)'))[1])
        FROM unnest(ARRAY['name', 'description']) h
        WHERE memsheaf.plain((regexp_match(s.said, '\n' || h || ': ([^\n]*)'))[1]) ~ '\S+ \S+ \S+ \S+') p
    WHERE t.namespace = ns AND t.version = ANY (versions) AND length(p.piece) >= 6;
  UPDATE memsheaf.inbox i SET turn = NULL WHERE i.namespace = ns AND i.turn IS NOT NULL
    AND EXISTS (SELECT FROM unnest(pieces) p WHERE strpos(memsheaf.plain(i.turn), p) > 0);
  UPDATE memsheaf.proposals q SET proposal = NULL, outcome = 'erased' WHERE q.namespace = ns AND q.proposal IS NOT NULL
    AND EXISTS (SELECT FROM unnest(pieces) p WHERE strpos(memsheaf.plain(q.proposal), p) > 0);
END $$;

GRANT EXECUTE ON FUNCTION memsheaf.add_token, memsheaf.list_tokens, memsheaf.revoke_token, memsheaf.join_space,
  memsheaf.add_turns, memsheaf.take_turns, memsheaf.finish_turns, memsheaf.decide_proposal TO memsheaf_member;
GRANT EXECUTE ON FUNCTION memsheaf.token_member, memsheaf.reserve_spend, memsheaf.settle_spend TO memsheaf_service;
