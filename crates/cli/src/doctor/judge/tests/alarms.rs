//! The alarms, and who hears them.

use super::*;

#[test]
fn the_alarms_are_those_of_the_template() {
    let template = include_str!("../../../../../../infra/template.yaml");
    let lines: Vec<&str> = template.lines().collect();
    let mut in_template: Vec<&str> = lines
        .windows(2)
        .filter(|pair| pair[1] == "    Type: AWS::CloudWatch::Alarm")
        .map(|pair| pair[0].trim().trim_end_matches(':'))
        .collect();
    in_template.sort_unstable();
    assert_eq!(in_template, ALARMS);
}

#[test]
fn an_alarm_that_nobody_hears_is_a_problem() {
    let dead_deliveries = |change: fn(&mut Alarm)| {
        wrong(|findings| {
            let mut alarms = findings.alarms.as_mut().unwrap().iter_mut();
            change(
                alarms
                    .find(|alarm| alarm.name == "shop-DeadDeliveriesAlarm")
                    .unwrap(),
            );
        })
    };
    assert_eq!(
        dead_deliveries(|alarm| alarm.actions_enabled = false),
        problem(
            "alarms: DeadDeliveriesAlarm tells nobody: its actions are disabled",
            "`aws cloudwatch enable-alarm-actions --alarm-names shop-DeadDeliveriesAlarm`"
        )
    );
    assert_eq!(
        dead_deliveries(|alarm| alarm.actions.clear()),
        problem(
            "alarms: DeadDeliveriesAlarm tells nobody: the alarm topic is not among its actions",
            &format!(
                "give the alarm shop-DeadDeliveriesAlarm the action {TOPIC} again, in the console \
                 or by `aws cloudwatch put-metric-alarm`"
            )
        )
    );
    assert_eq!(
        dead_deliveries(|alarm| alarm.name = "other".into()),
        problem(
            "alarms: DeadDeliveriesAlarm (shop-DeadDeliveriesAlarm) was deleted",
            "CloudFormation does not see it: take DeadDeliveriesAlarm out of the template, deploy, \
             put it back and deploy again (`aws cloudformation detect-stack-drift --stack-name \
             shop` shows what else is gone)"
        )
    );
    assert_eq!(
        wrong(|findings| {
            findings
                .alarm_names
                .as_mut()
                .unwrap()
                .remove("InFlightAlarm");
        }),
        problem(
            "alarms: the stack has no InFlightAlarm",
            "deploy again with the template of this version"
        )
    );
    assert_eq!(
        dead_deliveries(|alarm| alarm.rings = true),
        warning(
            "alarms: DeadDeliveriesAlarm rings",
            "its description says what to do: `aws cloudwatch describe-alarms --alarm-names \
             shop-DeadDeliveriesAlarm`"
        )
    );
}

#[test]
fn a_local_aws_need_not_have_the_alarm_on_a_formula() {
    let local = "arn:aws:sns:eu-central-1:000000000000:alarms";
    let found = wrong(|findings| {
        let outputs = &mut findings.stack.outputs;
        outputs.insert("AlarmTopicArn".into(), local.into());
        for alarm in findings.alarms.as_mut().unwrap() {
            alarm.actions = vec![local.to_owned()];
        }
        let names = findings.alarm_names.as_mut().unwrap();
        names.remove("DeadLettersInflowAlarm");
    });
    assert_eq!(found, []);
}

#[test]
fn a_topic_that_nobody_hears_is_warned_of() {
    let topic =
        |confirmed, pending| wrong(|findings| findings.topic = Ok(Topic { confirmed, pending }));
    assert_eq!(
        topic(0, 0),
        warning(
            "alarm topic: nobody is subscribed: alarms ring unheard",
            &format!(
                "set the parameter AlarmEmail, or `aws sns subscribe --topic-arn {TOPIC} \
                 --protocol email --notification-endpoint ops@example.com`"
            )
        )
    );
    assert_eq!(
        topic(0, 1),
        warning(
            "alarm topic: nobody hears alarms yet: of 1 subscribed nobody has confirmed",
            "follow the link in the mail of AWS Notifications; it is valid for three days, then \
             subscribe again"
        )
    );
    assert_eq!(topic(1, 1), []);
}
