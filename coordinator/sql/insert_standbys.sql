INSERT INTO partition_ownership (group_name, topic_name, topic_id, partition, copy,
                                 owner, since_generation, state)
SELECT %(group)s, topic_name, topic_id, partition, copy, member, %(generation)s, 'assigned'
FROM unnest(%(topic_names)s::text[], %(topic_ids)s::uuid[], %(partitions)s::int[], %(copies)s::smallint[],
            %(members)s::text[])
     AS u (topic_name, topic_id, partition, copy, member)
